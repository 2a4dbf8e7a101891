package main

// Telling many handlers of each event, decoded already, through a shared informer.

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// As many as in src/subject/mod.rs.
const heardPods = 1000

// A watch that sends events that are there already.
type prepared struct{ events chan watch.Event }

func (p prepared) Stop()                          {}
func (p prepared) ResultChan() <-chan watch.Event { return p.events }

func fanout(size, handlers int) {
	before, wall, heard, _ := tell(size, handlers, false)
	say("events_per_second", "1/s", float64(size)/wall)
	say("cpu_us_per_event", "us", (now().cpu-before.cpu)*1e6/float64(size))
	say("heard_share", "x", heard)
}

// Ten handlers beside one that never returns.
func stalledHandler(size int) {
	before, wall, heard, held := tell(size, 10, true)
	say("events_per_second", "1/s", float64(size)/wall)
	say("cpu_us_per_event", "us", (now().cpu-before.cpu)*1e6/float64(size))
	say("heard_share", "x", heard)
	say("held_bytes", "B", held)
}

func tell(size, handlers int, stalled bool) (before moment, wall, heardShare, held float64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for pod := range heardPods {
		list.Items = append(list.Items, *smallPod(pod, pod%nodes, 1))
	}
	source := prepared{make(chan watch.Event, 1024)}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListFunc:  func(metav1.ListOptions) (kube.Object, error) { return list, nil },
		WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { return source, nil },
	}, lists{}), &corev1.Pod{}, 0, cache.Indexers{})
	last := strconv.Itoa(size + 1)
	var heard atomic.Int64
	var done sync.WaitGroup
	for range handlers {
		done.Add(1)
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, object any) {
				heard.Add(1)
				if object.(*corev1.Pod).ResourceVersion == last {
					done.Done()
				}
			},
		})
		check(err)
	}
	go informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		panic("not synced")
	}
	if stalled {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { <-ctx.Done() },
		})
		check(err)
	}
	was := live()
	events := make([]watch.Event, size)
	for number := range events {
		pod, node := step(uint64(number), heardPods)
		events[number] = watch.Event{Type: watch.Modified, Object: smallPod(pod, node, uint64(number)+2)}
	}
	before = now()
	began := time.Now()
	for i, event := range events {
		source.events <- event
		// Nobody but the informer holds what was sent.
		events[i] = watch.Event{}
	}
	done.Wait()
	wall = time.Since(began).Seconds()
	after := now()
	held = live() - was - float64(cap(events))*float64(unsafe.Sizeof(watch.Event{}))
	runtime.KeepAlive(events)
	before.cpu += now().cpu - after.cpu
	heardShare = float64(heard.Load()) / float64(size*handlers)
	return before, wall, heardShare, held
}

// A client that has no streaming lists.
type lists struct{}

func (lists) IsWatchListSemanticsUnSupported() bool { return true }
