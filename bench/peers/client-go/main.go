// The subject client-go: its own shared informers and work queues, doing the bench's scenarios.
//
//	SCENARIO SIZE [URL [TOKEN]] -> work between two moments -> a line of JSON for each metric
//
// It is at its best: managedFields are dropped by a transform, the client is not throttled, replies
// come uncompressed. A scenario that it has no answer to gets none.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// What was used until now.
type moment struct {
	cpu         float64
	user        float64
	allocations uint64
}

func now() moment {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	user, system := seconds(usage.Utime), seconds(usage.Stime)
	return moment{cpu: user + system, user: user, allocations: memory.Mallocs}
}

func say(metric, unit string, value float64) {
	line, err := json.Marshal(map[string]any{"metric": metric, "unit": unit, "value": value})
	check(err)
	fmt.Println(string(line))
}

// The heap that is really held, after what nobody needs was collected.
func live() float64 {
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return float64(memory.HeapAlloc)
}

// The most that the heap ever took from the system: what Go says of its past.
func peak() float64 {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return float64(memory.HeapSys)
}

// A line of /proc/self/status in bytes.
func resident(name string) float64 {
	text, err := os.ReadFile("/proc/self/status")
	check(err)
	for _, line := range strings.Split(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, name); found {
			kilobytes, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			check(err)
			return kilobytes * 1024
		}
	}
	return 0
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	scenario := os.Args[1]
	size, err := strconv.Atoi(os.Args[2])
	check(err)
	url := ""
	if len(os.Args) > 3 {
		url = os.Args[3]
	}
	switch scenario {
	case "sync-json", "sync-json-paged", "sync-stream", "sync-protobuf", "sync-json-typed",
		"sync-mix", "sync-unseen", "small-operator", "touch-everything", "metadata-only":
		fill(scenario, size, url)
	case "relist-1pct", "relist-10pct":
		relist(scenario, url)
	case "index-list":
		indexList(size)
	case "read-under-write":
		readUnderWrite(size)
	case "fanout-1":
		fanout(size, 1)
	case "fanout-10":
		fanout(size, 10)
	case "fanout-100":
		fanout(size, 100)
	case "write-to-reconcile":
		writeToReconcile(size, url, os.Args[4])
	case "stalled-handler":
		stalledHandler(size)
	case "queue-cycle":
		queueAlone(size)
	case "queue-cycle-1":
		queueShared(size, 1)
	case "queue-cycle-4":
		queueShared(size, 4)
	case "delayed-adds":
		delayedAdds(size)
	}
}
