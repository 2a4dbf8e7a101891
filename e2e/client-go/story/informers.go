package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// What a handler heard: "add x", "update x", "delete x".
type ear struct {
	lock  sync.Mutex
	heard []string
}

func (e *ear) hear(event string, object any) {
	if tombstone, unknown := object.(cache.DeletedFinalStateUnknown); unknown {
		object = tombstone.Obj
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	e.heard = append(e.heard, event+" "+accessor.GetName())
}

func (e *ear) has(line string) func() (bool, error) {
	return func() (bool, error) {
		e.lock.Lock()
		defer e.lock.Unlock()
		for _, heard := range e.heard {
			if heard == line {
				return true, nil
			}
		}
		return false, nil
	}
}

func (e *ear) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { e.hear("add", o) },
		UpdateFunc: func(_, o any) { e.hear("update", o) },
		DeleteFunc: func(o any) { e.hear("delete", o) },
	}
}

func sharedInformer(ctx context.Context, s *stage) error {
	maps := s.typed.CoreV1().ConfigMaps(s.namespace)
	if _, err := maps.Create(ctx, configMap("shared-a", "0"), metav1.CreateOptions{}); err != nil {
		return err
	}
	lists := s.wire.count(func(r request) bool { return isList(r, "configmaps") })
	factory := informers.NewSharedInformerFactoryWithOptions(s.typed, time.Hour, informers.WithNamespace(s.namespace))
	informer := factory.Core().V1().ConfigMaps()
	heard := &ear{}
	if _, err := informer.Informer().AddEventHandler(heard.handler()); err != nil {
		return err
	}
	byValue := func(o any) ([]string, error) { return []string{o.(*corev1.ConfigMap).Data["k"]}, nil }
	if err := informer.Informer().AddIndexers(cache.Indexers{"value": byValue}); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer stop()
	factory.StartWithContext(running)
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return fmt.Errorf("it does not sync")
	}
	streams := s.wire.count(func(r request) bool { return isStream(r, "configmaps") })
	listed := s.wire.count(func(r request) bool { return isList(r, "configmaps") }) - lists
	made, err := maps.Create(ctx, configMap("shared-b", "0"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := until(ctx, "the addition", heard.has("add shared-b")); err != nil {
		return err
	}
	made.Data["k"] = "special"
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := until(ctx, "the update", heard.has("update shared-b")); err != nil {
		return err
	}
	indexed, err := informer.Informer().GetIndexer().ByIndex("value", "special")
	if err != nil {
		return err
	}
	if err := maps.Delete(ctx, "shared-a", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := until(ctx, "the deletion", heard.has("delete shared-a")); err != nil {
		return err
	}
	all, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	cached, err := informer.Lister().List(labels.Everything())
	return first(err,
		same("streaming lists", streams, 1),
		same("lists", listed, 0),
		same("indexed", len(indexed), 1),
		same("cached", len(cached), len(all.Items)),
	)
}

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

func definition(group string) *unstructured.Unstructured {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": open},
			}},
		},
	}}
}

func dynamicInformer(ctx context.Context, s *stage) error {
	group := s.namespace + ".example.com"
	if _, err := s.dynamic.Resource(definitions).Create(ctx, definition(group), metav1.CreateOptions{}); err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	widgets := s.dynamic.Resource(resource).Namespace(s.namespace)
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
		"spec": map[string]any{"size": int64(3)},
	}}
	err := until(ctx, "the resource is served", func() (bool, error) {
		_, err := widgets.Create(ctx, widget, metav1.CreateOptions{})
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(s.dynamic, time.Hour, s.namespace, nil)
	informer := factory.ForResource(resource)
	heard := &ear{}
	if _, err := informer.Informer().AddEventHandler(heard.handler()); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer stop()
	factory.Start(running.Done())
	if err := until(ctx, "the addition", heard.has("add w")); err != nil {
		return err
	}
	stored, err := informer.Lister().ByNamespace(s.namespace).Get("w")
	if err != nil {
		return err
	}
	size, _, err := unstructured.NestedInt64(stored.(*unstructured.Unstructured).Object, "spec", "size")
	if err := first(err, same("the size", size, 3)); err != nil {
		return err
	}
	// The definition goes, and its objects with it.
	if err := s.dynamic.Resource(definitions).Delete(ctx, "widgets."+group, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return until(ctx, "the deletion", heard.has("delete w"))
}

func metadataInformer(ctx context.Context, s *stage) error {
	deployments := s.typed.AppsV1().Deployments(s.namespace)
	if _, err := deployments.Create(ctx, deployment("metadata"), metav1.CreateOptions{}); err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	factory := metadatainformer.NewFilteredSharedInformerFactory(s.metadata, time.Hour, s.namespace, nil)
	informer := factory.ForResource(resource)
	heard := &ear{}
	if _, err := informer.Informer().AddEventHandler(heard.handler()); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer stop()
	factory.Start(running.Done())
	if err := until(ctx, "the addition", heard.has("add metadata")); err != nil {
		return err
	}
	stored, err := informer.Lister().ByNamespace(s.namespace).Get("metadata")
	if err != nil {
		return err
	}
	object, is := stored.(*metav1.PartialObjectMetadata)
	if !is {
		return fmt.Errorf("it is a %T", stored)
	}
	if err := deployments.Delete(ctx, "metadata", metav1.DeleteOptions{}); err != nil {
		return err
	}
	asked := s.wire.count(func(r request) bool { return strings.Contains(r.accept, "as=PartialObjectMetadata") })
	return first(
		same("the label", object.Labels["app"], "metadata"),
		same("metadata was asked for", asked > 0, true),
		until(ctx, "the deletion", heard.has("delete metadata")),
	)
}

func retryWatcher(ctx context.Context, s *stage) error {
	maps := s.typed.CoreV1().ConfigMaps(s.namespace)
	made, err := maps.Create(ctx, configMap("retry", "0"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	one := int64(1)
	source := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			// Each stream ends after a second: the watcher has to resume.
			o.TimeoutSeconds = &one
			o.FieldSelector = "metadata.name=retry"
			return maps.Watch(ctx, o)
		},
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, made.ResourceVersion, source)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for n := 1; n <= 3; n++ {
		made.Data["k"] = fmt.Sprint(n)
		if made, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
		select {
		case event := <-watcher.ResultChan():
			object, is := event.Object.(*corev1.ConfigMap)
			if !is || event.Type != watch.Modified || object.Data["k"] != fmt.Sprint(n) {
				return fmt.Errorf("update %d: %v %v", n, event.Type, event.Object)
			}
		case <-time.After(patience):
			return fmt.Errorf("update %d is not heard", n)
		}
		// Longer than a stream lasts.
		time.Sleep(1200 * time.Millisecond)
	}
	return nil
}

func discovers(ctx context.Context, s *stage) error {
	cached := memory.NewMemCacheClient(s.typed.Discovery())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1")
	if err != nil {
		return err
	}
	short, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: "nodes"})
	if err != nil {
		return err
	}
	lists, err := s.typed.Discovery().ServerPreferredNamespacedResources()
	if err != nil {
		return err
	}
	version, err := s.typed.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	return first(
		same("the resource", mapping.Resource.Resource, "deployments"),
		same("the scope", mapping.Scope.Name(), meta.RESTScopeNameNamespace),
		same("the plural", short.Resource, "nodes"),
		same("there are many groups", len(lists) > 10, true),
		same("the major version", version.Major, "1"),
	)
}
