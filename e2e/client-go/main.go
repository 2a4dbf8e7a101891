// The subject that kinform is compared with: informers of the real client-go, as a driver orders.
//
//	stdin: one command a line  ──▶  an informer a history  ──▶  stdout: what its handlers hear, one line each
//
// Any number of histories run side by side, each with an informer of its own: config maps through the
// dynamic client, with every option and feature gate as it is by default. Nothing is decided here: when
// a handler comes or goes is the driver's business, and so is what the lines mean.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// A command; only what its verb needs is set.
type command struct {
	// make, add, start, remove or stop.
	Verb    string `json:"verb"`
	History uint64 `json:"history"`
	// Where the server of this history is: make.
	Server string `json:"server"`
	// The informer's resync period: make. The handler's: add.
	ResyncMs int64 `json:"resyncMs"`
	// add, remove.
	Handler uint64 `json:"handler"`
}

// What a handler hears, or the answer to a command.
type line struct {
	History uint64 `json:"history"`
	Handler uint64 `json:"handler"`
	// add, update, delete; done (the command was obeyed), stored (an object at the end), failed.
	Event             string `json:"event"`
	Key               string `json:"key,omitempty"`
	UID               string `json:"uid,omitempty"`
	Version           string `json:"version,omitempty"`
	OldUID            string `json:"oldUid,omitempty"`
	OldVersion        string `json:"oldVersion,omitempty"`
	Initial           bool   `json:"initial,omitempty"`
	FinalStateUnknown bool   `json:"finalStateUnknown,omitempty"`
	Message           string `json:"message,omitempty"`
}

// Lines to stdout, whole and at once.
type output struct {
	lock    sync.Mutex
	encoder *json.Encoder
}

func (o *output) print(l line) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if err := o.encoder.Encode(l); err != nil {
		// The driver is gone, and with it the reason to run.
		os.Exit(1)
	}
}

// One history: its informer, and who listens.
type history struct {
	id       uint64
	out      *output
	informer cache.SharedIndexInformer
	handlers map[uint64]cache.ResourceEventHandlerRegistration
	cancel   context.CancelFunc
	ended    chan struct{}
	running  bool
}

func newHistory(c command, out *output) (*history, error) {
	// The client's own rate limit would only slow the histories down: it is not the informer's.
	client, err := dynamic.NewForConfig(&rest.Config{Host: c.Server, QPS: -1})
	if err != nil {
		return nil, err
	}
	resource := client.Resource(configMaps)
	// As dynamicinformer.NewFilteredDynamicInformer does it, without its dependencies.
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}
	informer := cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(listWatch, client),
		&unstructured.Unstructured{},
		cache.SharedIndexInformerOptions{
			ResyncPeriod: time.Duration(c.ResyncMs) * time.Millisecond,
			Indexers:     cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		},
	)
	return &history{
		id:       c.History,
		out:      out,
		informer: informer,
		handlers: map[uint64]cache.ResourceEventHandlerRegistration{},
		ended:    make(chan struct{}),
	}, nil
}

func (h *history) obey(c command) error {
	switch c.Verb {
	case "make":
	case "start":
		ctx, cancel := context.WithCancel(context.Background())
		h.cancel, h.running = cancel, true
		go func() {
			defer close(h.ended)
			h.informer.RunWithContext(ctx)
		}()
	case "add":
		period := time.Duration(c.ResyncMs) * time.Millisecond
		registration, err := h.informer.AddEventHandlerWithResyncPeriod(&handler{h, c.Handler}, period)
		if err != nil {
			return err
		}
		h.handlers[c.Handler] = registration
	case "remove":
		return h.informer.RemoveEventHandler(h.handlers[c.Handler])
	case "stop":
		if h.running {
			h.cancel()
			<-h.ended
		}
		for _, stored := range h.informer.GetStore().List() {
			h.out.print(h.line(0, "stored", stored.(*unstructured.Unstructured)))
		}
	default:
		return fmt.Errorf("no such verb: %q", c.Verb)
	}
	return nil
}

func (h *history) line(handler uint64, event string, object *unstructured.Unstructured) line {
	return line{
		History: h.id,
		Handler: handler,
		Event:   event,
		Key:     object.GetNamespace() + "/" + object.GetName(),
		UID:     string(object.GetUID()),
		Version: object.GetResourceVersion(),
	}
}

// A handler that prints.
type handler struct {
	history *history
	id      uint64
}

func (h *handler) OnAdd(object any, isInInitialList bool) {
	l := h.history.line(h.id, "add", object.(*unstructured.Unstructured))
	l.Initial = isInInitialList
	h.history.out.print(l)
}

func (h *handler) OnUpdate(old, object any) {
	was := old.(*unstructured.Unstructured)
	l := h.history.line(h.id, "update", object.(*unstructured.Unstructured))
	l.OldUID, l.OldVersion = string(was.GetUID()), was.GetResourceVersion()
	h.history.out.print(l)
}

func (h *handler) OnDelete(object any) {
	tombstone, unknown := object.(cache.DeletedFinalStateUnknown)
	if unknown {
		object = tombstone.Obj
	}
	l := h.history.line(h.id, "delete", object.(*unstructured.Unstructured))
	l.FinalStateUnknown = unknown
	h.history.out.print(l)
}

func main() {
	klog.SetLogger(logr.Discard())
	out := &output{encoder: json.NewEncoder(os.Stdout)}
	histories := map[uint64]*history{}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var c command
		if err := json.Unmarshal(commands.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, "not a command:", err)
			os.Exit(1)
		}
		h, known := histories[c.History]
		if !known {
			made, err := newHistory(c, out)
			if err != nil {
				out.print(line{History: c.History, Event: "failed", Message: err.Error()})
				continue
			}
			h = made
			histories[c.History] = h
		}
		if c.Verb == "stop" {
			delete(histories, c.History)
		}
		obey := func() {
			if err := h.obey(c); err != nil {
				out.print(line{History: c.History, Event: "failed", Message: err.Error()})
				return
			}
			out.print(line{History: c.History, Event: "done"})
		}
		// Stopping waits for the informer's end; the others' commands do not wait for it.
		if c.Verb == "stop" {
			go obey()
		} else {
			obey()
		}
	}
}
