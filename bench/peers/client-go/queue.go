package main

// Work queues: keys that go round, and keys that wait.

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// How many keys there are, and the most that wait at a time: so each add is a cycle.
const (
	differentKeys = 100_000
	backlog       = 1024
	burst         = 256
)

func keys(count int) []string {
	keys := make([]string, count)
	for i := range keys {
		keys[i] = podKey(i)
	}
	return keys
}

// Keeps no times.
func newQueue() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
}

// Keeps the times of each key, as the queues of controllers do: client-go does if a queue has a name and a
// provider of metrics. These metrics do nothing.
func newTimedQueue() workqueue.TypedRateLimitingInterface[string] {
	config := workqueue.TypedRateLimitingQueueConfig[string]{Name: "bench", MetricsProvider: provider{}}
	return workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](), config)
}

type metric struct{}

func (metric) Inc()            {}
func (metric) Dec()            {}
func (metric) Set(float64)     {}
func (metric) Observe(float64) {}

type provider struct{}

func (provider) NewDepthMetric(string) workqueue.GaugeMetric            { return metric{} }
func (provider) NewAddsMetric(string) workqueue.CounterMetric           { return metric{} }
func (provider) NewRetriesMetric(string) workqueue.CounterMetric        { return metric{} }
func (provider) NewLatencyMetric(string) workqueue.HistogramMetric      { return metric{} }
func (provider) NewWorkDurationMetric(string) workqueue.HistogramMetric { return metric{} }
func (provider) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return metric{}
}
func (provider) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return metric{}
}

func ofCycles(before moment, wall time.Duration, cycles int) {
	after := now()
	say("ns_per_cycle", "ns", float64(wall.Nanoseconds())/float64(cycles))
	say("cpu_ns_per_cycle", "ns", (after.cpu-before.cpu)*1e9/float64(cycles))
	say("allocations_per_cycle", "count", float64(after.allocations-before.allocations)/float64(cycles))
}

// One goroutine adds and works.
func queueAlone(size int) {
	names := keys(differentKeys)
	queue := newQueue()
	before, began := now(), time.Now()
	for i := 0; i+burst <= size; i += burst {
		for j := range burst {
			queue.Add(names[(i+j)%differentKeys])
		}
		for range burst {
			key, _ := queue.Get()
			queue.Forget(key)
			queue.Done(key)
		}
	}
	ofCycles(before, time.Since(began), size/burst*burst)
}

// A producer, and so many workers.
func queueShared(size, workers int) {
	before, wall := queueCycles(newQueue(), size, workers)
	ofCycles(before, wall, size)
	before, _ = queueCycles(newTimedQueue(), size, workers)
	say("cpu_ns_per_cycle_with_times", "ns", (now().cpu-before.cpu)*1e9/float64(size))
}

func queueCycles(queue workqueue.TypedRateLimitingInterface[string], size, workers int) (moment, time.Duration) {
	names := keys(differentKeys)
	var handled atomic.Int64
	var group sync.WaitGroup
	before, began := now(), time.Now()
	for range workers {
		group.Go(func() {
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return
				}
				queue.Forget(key)
				queue.Done(key)
				handled.Add(1)
			}
		})
	}
	for i := range size {
		queue.Add(names[i%differentKeys])
		if i%burst == 0 {
			for int64(i)-handled.Load() > backlog {
				runtime.Gosched()
			}
		}
	}
	queue.ShutDown()
	group.Wait()
	if handled.Load() != int64(size) {
		panic(fmt.Sprintf("%d of %d keys were handled", handled.Load(), size))
	}
	return before, time.Since(began)
}

func delayedAdds(size int) {
	names := keys(size)
	queue := newQueue()
	held := live()
	before := now()
	for i, key := range names {
		queue.AddAfter(key, time.Duration(1000+(i*7919)%999_000)*time.Millisecond)
	}
	after := now()
	say("cpu_ns_per_add", "ns", (after.cpu-before.cpu)*1e9/float64(size))
	say("bytes_per_add", "B", (live()-held)/float64(size))
	runtime.KeepAlive(queue)
	runtime.KeepAlive(names)
}
