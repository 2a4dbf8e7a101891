package main

// A controller: from a write on the server to its reconcile.

import (
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// As in src/subject/latency.rs.
const written = "bench/written"

func writeToReconcile(size int, url, token string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := configuration("sync-protobuf", url)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	check(err)
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	queue := newQueue()
	enqueue := func(object any) {
		key, err := cache.MetaNamespaceKeyFunc(object)
		check(err)
		queue.Add(key)
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	check(err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var micros []float64
	for len(micros) < size {
		key, _ := queue.Get()
		object, found, err := informer.GetStore().GetByKey(key)
		check(err)
		if found {
			at := object.(*corev1.ConfigMap).Annotations[written]
			if began, err := strconv.ParseInt(at, 10, 64); err == nil {
				micros = append(micros, float64(time.Now().UnixMicro()-began))
			}
		}
		queue.Forget(key)
		queue.Done(key)
	}
	slices.Sort(micros)
	at := func(share float64) float64 { return micros[int(float64(len(micros)-1)*share)] }
	say("p50_us", "us", at(0.5))
	say("p90_us", "us", at(0.9))
	say("p99_us", "us", at(0.99))
}
