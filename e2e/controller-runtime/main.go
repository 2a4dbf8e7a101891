// What an operator built on controller-runtime does, told as a story of checks.
//
//	controller-runtime KUBECONFIG NAMESPACE          ──▶  any API server  ──▶  stdout: a report in JSON, exit code
//	controller-runtime KUBECONFIG NAMESPACE metrics  ──▶  the same story  ──▶  stdout: its families of metrics
//
// A manager with leader election runs a reconciler of a custom resource, with owned objects, an index, a
// finalizer, status updates and events. The checks write through a client of their own and wait for what the
// reconciler makes of it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const patience = 30 * time.Second

type check struct {
	Name    string  `json:"name"`
	Failure string  `json:"failure,omitempty"`
	Seconds float64 `json:"seconds"`
}

type stage struct {
	client.Client
	manager   ctrl.Manager
	namespace string
}

func until(ctx context.Context, what string, holds func() (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return holds() })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (s *stage) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

// Waits until the deployment of that name is like this.
func (s *stage) deployment(ctx context.Context, what, name string, is func(*appsv1.Deployment) bool) error {
	return until(ctx, what, func() (bool, error) {
		var deployment appsv1.Deployment
		err := s.Get(ctx, s.key(name), &deployment)
		return err == nil && is(&deployment), client.IgnoreNotFound(err)
	})
}

func creates(ctx context.Context, s *stage) error {
	widget := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "a"}, Spec: WidgetSpec{Size: 2}}
	if err := s.Create(ctx, widget); err != nil {
		return err
	}
	return s.deployment(ctx, "the deployment", "a", func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 2 && metav1.IsControlledBy(d, widget) &&
			d.Spec.Template.Spec.Containers[0].Image == "i:red"
	})
}

func reports(ctx context.Context, s *stage) error {
	return until(ctx, "the status", func() (bool, error) {
		var widget Widget
		err := s.Get(ctx, s.key("a"), &widget)
		isHeld := len(widget.Finalizers) == 1 && widget.Finalizers[0] == finalizer
		return isHeld && widget.Status.Wanted == 2 && widget.Status.ObservedGeneration == widget.Generation, err
	})
}

func follows(ctx context.Context, s *stage) error {
	var widget Widget
	if err := s.Get(ctx, s.key("a"), &widget); err != nil {
		return err
	}
	before := widget.DeepCopyObject().(*Widget)
	widget.Spec = WidgetSpec{Size: 5, Color: "blue"}
	if err := s.Patch(ctx, &widget, client.MergeFrom(before)); err != nil {
		return err
	}
	return s.deployment(ctx, "the change", "a", func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 5 && d.Spec.Template.Spec.Containers[0].Image == "i:blue"
	})
}

func restores(ctx context.Context, s *stage) error {
	var deployment appsv1.Deployment
	if err := s.Get(ctx, s.key("a"), &deployment); err != nil {
		return err
	}
	before := deployment.DeepCopy()
	zero := int32(0)
	deployment.Spec.Replicas = &zero
	if err := s.Patch(ctx, &deployment, client.StrategicMergeFrom(before)); err != nil {
		return err
	}
	changed := deployment.Generation
	return s.deployment(ctx, "the old size", "a", func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 5 && d.Generation > changed
	})
}

func recreates(ctx context.Context, s *stage) error {
	var deployment appsv1.Deployment
	if err := s.Get(ctx, s.key("a"), &deployment); err != nil {
		return err
	}
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := s.Delete(ctx, &deployment, background); err != nil {
		return err
	}
	return s.deployment(ctx, "another deployment", "a", func(d *appsv1.Deployment) bool {
		return d.UID != deployment.UID
	})
}

func indexes(ctx context.Context, s *stage) error {
	return until(ctx, "the index", func() (bool, error) {
		var owned appsv1.DeploymentList
		in, by := client.InNamespace(s.namespace), client.MatchingFields{byOwner: "a"}
		err := s.manager.GetClient().List(ctx, &owned, in, by)
		return len(owned.Items) == 1 && owned.Items[0].Name == "a", err
	})
}

func readsMetadata(ctx context.Context, s *stage) error {
	part := &metav1.PartialObjectMetadata{}
	part.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	err := until(ctx, "the metadata is cached", func() (bool, error) {
		err := s.manager.GetClient().Get(ctx, s.key("a"), part)
		return err == nil, client.IgnoreNotFound(err)
	})
	if err == nil && len(part.OwnerReferences) != 1 {
		err = fmt.Errorf("owners: %v", part.OwnerReferences)
	}
	return err
}

func recordsEvent(ctx context.Context, s *stage) error {
	return until(ctx, "the event", func() (bool, error) {
		var list eventsv1.EventList
		if err := s.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
			return false, err
		}
		for n := range list.Items {
			if list.Items[n].Reason == "Created" && list.Items[n].Note == "made a" {
				return true, nil
			}
		}
		return false, nil
	})
}

func refuses(ctx context.Context, s *stage) error {
	widget := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "bad"}, Spec: WidgetSpec{Size: -1}}
	if err := s.Create(ctx, widget); !apierrors.IsInvalid(err) {
		return fmt.Errorf("it should be invalid: %v", err)
	}
	return nil
}

func deletes(ctx context.Context, s *stage) error {
	if err := s.Delete(ctx, &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "a"}}); err != nil {
		return err
	}
	return until(ctx, "both are gone", func() (bool, error) {
		widget := s.Get(ctx, s.key("a"), &Widget{})
		deployment := s.Get(ctx, s.key("a"), &appsv1.Deployment{})
		return apierrors.IsNotFound(widget) && apierrors.IsNotFound(deployment), nil
	})
}

// Makes the definition and waits until it is served.
func define(ctx context.Context, c client.Client, group, namespace string) error {
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := c.Create(ctx, made); err != nil {
		return err
	}
	if err := c.Create(ctx, definition(group)); err != nil {
		return err
	}
	return until(ctx, "the resource is served", func() (bool, error) {
		return c.List(ctx, &WidgetList{}, client.InNamespace(namespace)) == nil, nil
	})
}

// A manager with the reconciler, running.
func start(ctx context.Context, kubeconfig, namespace string) (*stage, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	group := namespace + ".example.com"
	register(scheme.Scheme, group)
	direct, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, err
	}
	if err := define(ctx, direct, group, namespace); err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme.Scheme,
		Logger:                  logr.Discard(),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		LeaderElection:          true,
		LeaderElectionID:        "operator",
		LeaderElectionNamespace: namespace,
	})
	if err != nil {
		return nil, err
	}
	if err := manager.GetFieldIndexer().IndexField(ctx, &appsv1.Deployment{}, byOwner, ownerOf); err != nil {
		return nil, err
	}
	r := &reconciler{manager.GetClient(), manager.GetEventRecorder("operator")}
	if err := ctrl.NewControllerManagedBy(manager).For(&Widget{}).Owns(&appsv1.Deployment{}).Complete(r); err != nil {
		return nil, err
	}
	registerWebhook()
	go func() {
		if err := manager.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the manager:", err)
			os.Exit(1)
		}
	}()
	return &stage{direct, manager, namespace}, nil
}

func main() {
	ctrl.SetLogger(logr.Discard())
	asksMetrics := len(os.Args) == 4 && os.Args[3] == "metrics"
	if len(os.Args) != 3 && !asksMetrics {
		fmt.Fprintln(os.Stderr, "usage: controller-runtime KUBECONFIG NAMESPACE [metrics]")
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := start(ctx, os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	checks := []struct {
		name string
		run  func(context.Context, *stage) error
	}{
		{"the reconciler creates what its object owns", creates},
		{"the reconciler adds its finalizer and reports in the status", reports},
		{"a change of the object is followed", follows},
		{"a change of an owned object is undone", restores},
		{"a deleted owned object is made again", recreates},
		{"the cache is read by its index", indexes},
		{"metadata alone is cached beside the objects", readsMetadata},
		{"an event is recorded", recordsEvent},
		{"an invalid object is refused", refuses},
		{"the finalizer tidies up before the object goes", deletes},
	}
	var report struct {
		Checks []check `json:"checks"`
	}
	code := 0
	for _, c := range checks {
		began := time.Now()
		done := check{Name: c.name}
		if err := c.run(ctx, s); err != nil {
			done.Failure = err.Error()
			code = 1
		}
		done.Seconds = time.Since(began).Seconds()
		report.Checks = append(report.Checks, done)
	}
	if asksMetrics {
		err = families(os.Stdout)
	} else {
		err = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		code = 2
	}
	os.Exit(code)
}
