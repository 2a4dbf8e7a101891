package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": "story"}},
		Data:       map[string]string{"k": value},
	}
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:v1"}}},
			},
		},
	}
}

func writesProtobuf(ctx context.Context, s *stage) error {
	made, err := s.typed.AppsV1().Deployments(s.namespace).Create(ctx, deployment("proto"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	sent := s.wire.count(func(r request) bool {
		return r.method == "POST" && strings.HasSuffix(r.path, "/deployments") &&
			r.contentType == "application/vnd.kubernetes.protobuf"
	})
	replicas := int32(-1)
	if made.Spec.Replicas != nil {
		replicas = *made.Spec.Replicas
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "proto"},
		Data:       map[string][]byte{"k": {0, 1, 255}},
	}
	kept, err := s.typed.CoreV1().Secrets(s.namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return first(
		same("creations in protobuf", sent, 1),
		same("the default", replicas, 1),
		same("the generation", made.Generation, 1),
		same("the bytes", string(kept.Data["k"]), "\x00\x01\xff"),
		same("the type", kept.Type, corev1.SecretTypeOpaque),
	)
}

func updates(ctx context.Context, s *stage) error {
	maps := s.typed.CoreV1().ConfigMaps(s.namespace)
	old, err := maps.Create(ctx, configMap("update", "0"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for range 3 {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			read, err := maps.Get(ctx, "update", metav1.GetOptions{})
			if err != nil {
				return err
			}
			read.Data["k"] += "1"
			_, err = maps.Update(ctx, read, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	_, conflict := maps.Update(ctx, old, metav1.UpdateOptions{})
	_, exists := maps.Create(ctx, configMap("update", "0"), metav1.CreateOptions{})
	_, missing := maps.Get(ctx, "none", metav1.GetOptions{})
	read, err := maps.Get(ctx, "update", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return first(
		same("a conflict", apierrors.IsConflict(conflict), true),
		same("already exists", apierrors.IsAlreadyExists(exists), true),
		same("not found", apierrors.IsNotFound(missing), true),
		same("the data", read.Data["k"], "0111"),
	)
}

func patches(ctx context.Context, s *stage) error {
	deployments := s.typed.AppsV1().Deployments(s.namespace)
	if _, err := deployments.Create(ctx, deployment("patch"), metav1.CreateOptions{}); err != nil {
		return err
	}
	body := `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i:v2"},{"name":"d","image":"j"}]}}}}`
	patched, err := deployments.Patch(ctx, "patch", types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	images := map[string]string{}
	for _, c := range patched.Spec.Template.Spec.Containers {
		images[c.Name] = c.Image
	}
	scale, err := deployments.GetScale(ctx, "patch", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 4
	if _, err := deployments.UpdateScale(ctx, "patch", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	read, err := deployments.Get(ctx, "patch", metav1.GetOptions{})
	if err != nil {
		return err
	}
	read.Spec.Paused = true
	read.Status.Replicas = 4
	read.Status.ObservedGeneration = read.Generation
	status, err := deployments.UpdateStatus(ctx, read, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	return first(
		same("the images", images["c"]+" "+images["d"], "i:v2 j"),
		same("the replicas", *status.Spec.Replicas, 4),
		same("the generation", status.Generation, 3),
		same("the status", status.Status.Replicas, 4),
		same("the spec is left alone", status.Spec.Paused, false),
	)
}

func applies(ctx context.Context, s *stage) error {
	maps := s.typed.CoreV1().ConfigMaps(s.namespace)
	apply := func(manager string, force bool, data map[string]string) (*corev1.ConfigMap, error) {
		wanted := applycorev1.ConfigMap("apply", s.namespace).WithData(data)
		return maps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	if _, err := apply("one", false, map[string]string{"a": "1", "b": "1"}); err != nil {
		return err
	}
	_, conflict := apply("two", false, map[string]string{"a": "2"})
	forced, err := apply("two", true, map[string]string{"a": "2"})
	if err != nil {
		return err
	}
	left, err := apply("one", false, map[string]string{"c": "1"})
	if err != nil {
		return err
	}
	return first(
		same("a conflict", apierrors.IsConflict(conflict), true),
		same("the field was taken", forced.Data["a"], "2"),
		same("what is left", fmt.Sprint(left.Data), "map[a:2 c:1]"),
	)
}

func deletes(ctx context.Context, s *stage) error {
	maps := s.typed.CoreV1().ConfigMaps(s.namespace)
	for _, name := range []string{"delete-a", "delete-b", "delete-c"} {
		object := configMap(name, "0")
		object.Labels["delete"] = "yes"
		if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	wrong := types.UID("wrong")
	refused := maps.Delete(ctx, "delete-a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	if err := maps.Delete(ctx, "delete-a", metav1.DeleteOptions{}); err != nil {
		return err
	}
	selected := metav1.ListOptions{LabelSelector: "delete=yes"}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, selected); err != nil {
		return err
	}
	left, err := maps.List(ctx, selected)
	if err != nil {
		return err
	}
	return first(
		same("a conflict", apierrors.IsConflict(refused), true),
		same("what is left", len(left.Items), 0),
	)
}

func pages(ctx context.Context, s *stage) error {
	maps := s.typed.CoreV1().ConfigMaps(s.namespace)
	for n := range 23 {
		object := configMap(fmt.Sprintf("page-%02d", n), "0")
		object.Labels["page"] = "yes"
		if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	lists, seen := 0, 0
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		lists++
		return maps.List(ctx, o)
	})
	p.PageSize = 5
	err := p.EachListItem(ctx, metav1.ListOptions{LabelSelector: "page=yes"}, func(o runtime.Object) error {
		name := fmt.Sprintf("page-%02d", seen)
		if o.(*corev1.ConfigMap).Name != name {
			return errors.New("out of order: " + o.(*corev1.ConfigMap).Name)
		}
		seen++
		return nil
	})
	return first(err, same("objects", seen, 23), same("lists", lists, 5))
}
