package main

// Reading an indexer, which is filled directly: lists by an index, and reads beside a writer.
// The pods and steps are those of src/subject/small.rs.

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

const nodes = 40

func podNamespace(pod int) string { return fmt.Sprintf("namespace-%d", pod/7%nodes) }
func podName(pod int) string      { return fmt.Sprintf("application-7d8f9c6b5-%07d", pod) }
func podKey(pod int) string       { return podNamespace(pod) + "/" + podName(pod) }
func nodeName(node int) string    { return fmt.Sprintf("node-%02d.example.com", node) }

func step(number uint64, pods int) (pod, node int) {
	mixed := bits.RotateLeft64(number*0x9e3779b97f4a7c15, 31) * 0xbf58476d1ce4e5b9 >> 16
	return int(mixed % uint64(pods)), int(mixed >> 24 % nodes)
}

func smallPod(pod, node int, version uint64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(pod), Namespace: podNamespace(pod),
			UID:             types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", pod)),
			ResourceVersion: strconv.FormatUint(version, 10),
		},
		Spec: corev1.PodSpec{NodeName: nodeName(node)},
	}
}

func planted(pods int) cache.Indexer {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"node": func(object any) ([]string, error) {
			return []string{object.(*corev1.Pod).Spec.NodeName}, nil
		},
	})
	for pod := range pods {
		check(indexer.Add(smallPod(pod, pod%nodes, 1)))
	}
	return indexer
}

func write(indexer cache.Indexer, number uint64, pods int) {
	pod, node := step(number, pods)
	check(indexer.Update(smallPod(pod, node, number+2)))
}

// Whatever is written here is not optimized away.
var seen any

func list(indexer cache.Indexer, index, value string) int {
	objects, err := indexer.ByIndex(index, value)
	check(err)
	for _, object := range objects {
		seen = object
	}
	return len(objects)
}

func indexList(size int) {
	indexer := planted(size)
	for number := range uint64(size) {
		write(indexer, number, size)
	}
	var took []float64
	for node := range nodes {
		began := time.Now()
		if list(indexer, "node", nodeName(node)) == 0 {
			panic("no pods are on " + nodeName(node))
		}
		took = append(took, time.Since(began).Seconds()*1e3)
	}
	slices.Sort(took)
	say("all_handles_ms", "ms", (took[nodes/2-1]+took[nodes/2])/2)
}

func eachNs(turn func(int)) float64 {
	const readTime = 500 * time.Millisecond
	began, turns := time.Now(), 0
	for time.Since(began) < readTime {
		for range 16 {
			turn(turns)
			turns++
		}
	}
	return float64(time.Since(began).Nanoseconds()) / float64(turns)
}

func readUnderWrite(size int) {
	indexer := planted(size)
	var written atomic.Uint64
	var stop atomic.Bool
	began := time.Now()
	go func() {
		for number := uint64(0); !stop.Load(); number++ {
			write(indexer, number, size)
			written.Add(1)
		}
	}()
	keys := make([]string, 1000)
	for i := range keys {
		pod, _ := step(uint64(i), size)
		keys[i] = podKey(pod)
	}
	say("get_ns", "ns", eachNs(func(turn int) {
		object, _, err := indexer.GetByKey(keys[turn%len(keys)])
		check(err)
		seen = object
	}))
	say("list_namespace_us", "us", eachNs(func(turn int) {
		list(indexer, cache.NamespaceIndex, fmt.Sprintf("namespace-%d", turn%nodes))
	})/1e3)
	say("list_index_us", "us", eachNs(func(turn int) {
		list(indexer, "node", nodeName(turn%nodes))
	})/1e3)
	say("writes_per_second", "1/s", float64(written.Load())/time.Since(began).Seconds())
	stop.Store(true)
}
