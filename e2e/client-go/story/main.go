// What a program built on client-go does, told as a story of checks.
//
//	story KUBECONFIG NAMESPACE  ──▶  any API server  ──▶  stdout: a report in JSON, exit code 1 if a check failed
//
// Nothing here knows which server it talks to. Every option and feature gate of client-go is as it is by
// default: lists stream, typed clients write protobuf. What went over the wire is looked at on its way out.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// How long anything may take.
const patience = 30 * time.Second

// One check and what came of it.
type check struct {
	Name    string  `json:"name"`
	Failure string  `json:"failure,omitempty"`
	Seconds float64 `json:"seconds"`
}

// A request as it went out.
type request struct {
	method, path, query, contentType, accept string
}

// Requests that went out, of all clients of the story.
type wire struct {
	lock     sync.Mutex
	requests []request
	next     http.RoundTripper
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.lock.Lock()
	w.requests = append(w.requests, request{
		r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Accept"),
	})
	w.lock.Unlock()
	return w.next.RoundTrip(r)
}

// How many requests were like this.
func (w *wire) count(is func(request) bool) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	n := 0
	for _, r := range w.requests {
		if is(r) {
			n++
		}
	}
	return n
}

// What every check has.
type stage struct {
	config    *rest.Config
	namespace string
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	wire      *wire
}

func newStage(kubeconfig, namespace string) (*stage, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// The client's own rate limit would only slow the story down.
	config.QPS = -1
	s := &stage{config: config, namespace: namespace, wire: &wire{}}
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		if s.wire.next == nil {
			s.wire.next = next
		}
		return s.wire
	}
	if s.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	s.metadata, err = metadata.NewForConfig(config)
	return s, err
}

// Waits until it holds.
func until(ctx context.Context, what string, holds func() (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return holds() })
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func same[T comparable](what string, seen, wanted T) error {
	if seen != wanted {
		return fmt.Errorf("%s: %v, and it should be %v", what, seen, wanted)
	}
	return nil
}

// The first of these that is an error.
func first(errors ...error) error {
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func isStream(r request, resource string) bool {
	return strings.HasSuffix(r.path, "/"+resource) && strings.Contains(r.query, "sendInitialEvents=true")
}

func isList(r request, resource string) bool {
	return r.method == "GET" && strings.HasSuffix(r.path, "/"+resource) && !strings.Contains(r.query, "watch=")
}

func main() {
	klog.SetLogger(logr.Discard())
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: story KUBECONFIG NAMESPACE")
		os.Exit(2)
	}
	s, err := newStage(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	checks := []struct {
		name string
		run  func(context.Context, *stage) error
	}{
		{"a typed client writes protobuf", writesProtobuf},
		{"a typed client reads, updates and meets conflicts", updates},
		{"a typed client patches, scales and sets a status", patches},
		{"a typed client applies and meets the other's field", applies},
		{"a typed client deletes by precondition and by selector", deletes},
		{"a shared informer streams its list and hears changes", sharedInformer},
		{"a dynamic informer sees custom resources come and go", dynamicInformer},
		{"a metadata informer sees metadata alone", metadataInformer},
		{"a watch resumes after its stream was cut", retryWatcher},
		{"a pager reads all pages", pages},
		{"discovery maps kinds to resources", discovers},
		{"leadership is handed over", elects},
		{"the recorder of core events counts what repeats", recordsCore},
		{"the recorder of events makes a series of what repeats", recordsEvents},
	}
	var report struct {
		Checks []check `json:"checks"`
	}
	failed := false
	ctx := context.Background()
	object := namespace(s.namespace)
	if _, err := s.typed.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, c := range checks {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, 2*patience)
		done := check{Name: c.name}
		if err := c.run(limited, s); err != nil {
			done.Failure = err.Error()
			failed = true
		}
		cancel()
		done.Seconds = time.Since(began).Seconds()
		report.Checks = append(report.Checks, done)
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}
