package main

// Filling a cache, and filling it again.

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// What a small operator needs of pods; of other objects, all but managedFields.
func trim(object any) (any, error) {
	if pod, is := object.(*corev1.Pod); is {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID,
				ResourceVersion: pod.ResourceVersion, Labels: pod.Labels,
			},
			Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
			Status: corev1.PodStatus{Phase: pod.Status.Phase},
		}, nil
	}
	return dropManagedFields(object)
}

func configuration(scenario, url string) *rest.Config {
	config := &rest.Config{Host: url, QPS: -1, DisableCompression: true}
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	if scenario == "sync-protobuf" || scenario == "touch-everything" {
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	return config
}

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// The resources of a scenario: those of src/shape.rs.
func resources(scenario string) (typed, custom []schema.GroupVersionResource) {
	group := func(group, plural string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	}
	switch scenario {
	case "sync-mix":
		return []schema.GroupVersionResource{group("", "nodes"), group("apps", "deployments"),
				group("", "configmaps"), group("", "secrets")},
			[]schema.GroupVersionResource{group("bench.example.com", "certificates")}
	case "small-operator":
		return []schema.GroupVersionResource{pods},
			[]schema.GroupVersionResource{group("bench.example.com", "certificates")}
	case "sync-unseen":
		return []schema.GroupVersionResource{group("discovery.k8s.io", "endpointslices"),
				group("apps", "replicasets")},
			[]schema.GroupVersionResource{group("bench.example.com", "stories")}
	}
	return []schema.GroupVersionResource{pods}, nil
}

func build(scenario, url string) []cache.SharedIndexInformer {
	config := configuration(scenario, url)
	if scenario == "metadata-only" {
		client, err := metadata.NewForConfig(config)
		check(err)
		factory := metadatainformer.NewSharedInformerFactoryWithOptions(client, 0,
			metadatainformer.WithTransform(dropManagedFields))
		return []cache.SharedIndexInformer{factory.ForResource(pods).Informer()}
	}
	client, err := kubernetes.NewForConfig(config)
	check(err)
	// A list of the most recent version is read in pages; one of any version comes whole.
	paged := func(options *metav1.ListOptions) {
		if (scenario == "sync-json-paged" || scenario == "small-operator") && !options.AllowWatchBookmarks {
			options.ResourceVersion = ""
		}
	}
	transform := cache.TransformFunc(dropManagedFields)
	if scenario == "small-operator" {
		transform = trim
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(transform), informers.WithTweakListOptions(paged))
	var built []cache.SharedIndexInformer
	typed, custom := resources(scenario)
	for _, resource := range typed {
		informer, err := factory.ForResource(resource)
		check(err)
		built = append(built, informer.Informer())
	}
	if len(custom) > 0 {
		client, err := dynamic.NewForConfig(config)
		check(err)
		for _, resource := range custom {
			informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(resource).Informer()
			check(informer.SetTransform(dropManagedFields))
			built = append(built, informer)
		}
	}
	return built
}

// Runs informers, one after the other, until each has synced.
func run(ctx context.Context, informers []cache.SharedIndexInformer) {
	for _, informer := range informers {
		go informer.Run(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			panic("not synced")
		}
	}
}

func fill(scenario string, size int, url string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := live()
	start := now()
	informers := build(scenario, url)
	run(ctx, informers)
	stored := 0
	for _, informer := range informers {
		if scenario != "touch-everything" && scenario != "sync-json-typed" {
			stored += len(informer.GetStore().ListKeys())
			continue
		}
		for _, object := range informer.GetStore().List() {
			if object.(*corev1.Pod).Spec.NodeName != "" {
				stored++
			}
		}
	}
	synced := now()
	if stored += size % len(informers); stored != size {
		panic(fmt.Sprintf("%d objects are stored, not %d", stored, size))
	}
	highest := peak()
	residentNow, residentHighest := resident("VmRSS:"), resident("VmHWM:")
	after := live()
	say("cpu_seconds", "s", synced.cpu-start.cpu)
	say("user_seconds", "s", synced.user-start.user)
	say("resident_bytes", "B", residentNow)
	say("peak_resident_bytes", "B", residentHighest)
	say("allocations", "count", float64(synced.allocations-start.allocations))
	say("bytes_per_object", "B", (after-before)/float64(size))
	say("peak_over_steady", "x", highest/after)
}

func relist(scenario, url string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	informers := build(scenario, url)
	run(ctx, informers)
	store := informers[0].GetStore()
	keys := store.ListKeys()
	slices.Sort(keys)
	// Lists are sorted, and every object of a new list is stored anew: the last one is the last.
	last := func() any {
		object, _, err := store.GetByKey(keys[len(keys)-1])
		check(err)
		return object
	}
	was := last()
	steady := live()
	before := now()
	reply, err := http.Post(url+"/replay/expire", "application/json", nil)
	check(err)
	check(reply.Body.Close())
	for last() == was {
		time.Sleep(2 * time.Millisecond)
	}
	after := now()
	say("cpu_seconds", "s", after.cpu-before.cpu)
	say("user_seconds", "s", after.user-before.user)
	say("allocations", "count", float64(after.allocations-before.allocations))
	say("peak_over_steady", "x", peak()/steady)
}
