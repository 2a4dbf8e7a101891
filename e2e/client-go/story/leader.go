package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

func elects(ctx context.Context, s *stage) error {
	var lock sync.Mutex
	var history []string
	note := func(line string) {
		lock.Lock()
		defer lock.Unlock()
		history = append(history, line)
	}
	noted := func(line string) func() (bool, error) {
		return func() (bool, error) {
			lock.Lock()
			defer lock.Unlock()
			for _, seen := range history {
				if seen == line {
					return true, nil
				}
			}
			return false, nil
		}
	}
	candidate := func(ctx context.Context, name string) (chan struct{}, error) {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: s.namespace, Name: "leader"},
				Client:     s.typed.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 300 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { note(name + " leads") },
				OnStoppedLeading: func() { note(name + " stopped") },
				OnNewLeader:      func(leader string) { note(name + " sees " + leader) },
			},
		})
		if err != nil {
			return nil, err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			elector.Run(ctx)
		}()
		return ended, nil
	}
	firstCtx, endFirst := context.WithCancel(ctx)
	defer endFirst()
	secondCtx, endSecond := context.WithCancel(ctx)
	defer endSecond()
	firstEnded, err := candidate(firstCtx, "one")
	if err != nil {
		return err
	}
	if err := until(ctx, "the first leads", noted("one leads")); err != nil {
		return err
	}
	secondEnded, err := candidate(secondCtx, "two")
	if err != nil {
		return err
	}
	if err := until(ctx, "the second sees the first", noted("two sees one")); err != nil {
		return err
	}
	leads, _ := noted("two leads")()
	endFirst()
	<-firstEnded
	if err := first(
		same("two led at once", leads, false),
		until(ctx, "the second leads", noted("two leads")),
	); err != nil {
		return err
	}
	lease, err := s.typed.CoordinationV1().Leases(s.namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	endSecond()
	<-secondEnded
	return first(
		same("the holder", *lease.Spec.HolderIdentity, "two"),
		same("hand-overs", *lease.Spec.LeaseTransitions > 0, true),
		same("the time has microseconds", lease.Spec.RenewTime.IsZero(), false),
	)
}

func regarding(s *stage, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.namespace, Name: name, UID: "story"}
}

func recordsCore(ctx context.Context, s *stage) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	sink := &typedcorev1.EventSinkImpl{Interface: s.typed.CoreV1().Events(s.namespace)}
	broadcaster.StartRecordingToSink(sink)
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "story"})
	for range 3 {
		recorder.Event(regarding(s, "core"), corev1.EventTypeWarning, "Repeats", "it repeats itself")
	}
	selector := "involvedObject.name=core,reason=Repeats"
	var last *corev1.EventList
	err := until(ctx, "the event is counted", func() (bool, error) {
		list, err := s.typed.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		last = list
		return err == nil && len(list.Items) == 1 && list.Items[0].Count == 3, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %v", err, last)
	}
	other, err := s.typed.EventsV1().Events(s.namespace).Get(ctx, last.Items[0].Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return first(
		same("the note", other.Note, "it repeats itself"),
		same("the count", other.DeprecatedCount, 3),
	)
}

func recordsEvents(ctx context.Context, s *stage) error {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.typed.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "story")
	note := func() {
		recorder.Eventf(regarding(s, "series"), nil, corev1.EventTypeNormal, "Serial", "Telling", "it is a series")
	}
	note()
	find := func() (*corev1.Event, error) {
		list, err := s.typed.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for n := range list.Items {
			if strings.HasPrefix(list.Items[n].Name, "series.") {
				return &list.Items[n], nil
			}
		}
		return nil, nil
	}
	err := until(ctx, "the event", func() (bool, error) {
		event, err := find()
		return event != nil, err
	})
	if err != nil {
		return err
	}
	note()
	return until(ctx, "the series", func() (bool, error) {
		event, err := find()
		if err != nil || event == nil || event.Series == nil {
			return false, err
		}
		return event.Series.Count == 2 && event.Message == "it is a series", nil
	})
}
