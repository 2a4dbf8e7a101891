// A candidate of client-go that leads for a moment, releases the lease, and stands again once another
// holder was seen.
//
//	candidate KUBECONFIG LEASE IDENTITY  ──▶  Lease default/LEASE; ConfigMap default/LEASE: annotations by, term
//
// It runs until its standard input ends. Options and feature gates are client-go's; the timings are short.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// How long it leads.
const reign = 150 * time.Millisecond

func main() {
	klog.SetLogger(logr.Discard())
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: candidate KUBECONFIG LEASE IDENTITY")
		os.Exit(2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for ctx.Err() == nil {
		lead(ctx, client, os.Args[2], os.Args[3])
		awaitOther(ctx, client, os.Args[2], os.Args[3])
	}
}

// One candidacy: from the first attempt to the release.
func lead(ctx context.Context, client kubernetes.Interface, lease, identity string) {
	ctx, resign := context.WithCancel(ctx)
	defer resign()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: lease},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: 4 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				end := time.Now().Add(reign)
				for ctx.Err() == nil && time.Now().Before(end) {
					write(ctx, client, lease, identity)
					time.Sleep(20 * time.Millisecond)
				}
				resign()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	elector.Run(ctx)
}

func write(ctx context.Context, client kubernetes.Interface, name, identity string) {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"by":%q,"at":%q}}}`, identity, time.Now().Format(time.RFC3339Nano))
	maps := client.CoreV1().ConfigMaps("default")
	_, _ = maps.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
}

// Waits until another holder was seen.
func awaitOther(ctx context.Context, client kubernetes.Interface, name, identity string) {
	for ctx.Err() == nil {
		lease, err := client.CoordinationV1().Leases("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && lease.Spec.HolderIdentity != nil {
			if holder := *lease.Spec.HolderIdentity; holder != "" && holder != identity {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
