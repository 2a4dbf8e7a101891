package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	finalizer = "example.com/tidy-up"
	// The index of deployments by the widget that owns them.
	byOwner = "owner"
)

// A widget becomes a deployment.
type reconciler struct {
	client.Client
	recorder events.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var widget Widget
	if err := r.Get(ctx, request.NamespacedName, &widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !widget.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.tidyUp(ctx, &widget)
	}
	if controllerutil.AddFinalizer(&widget, finalizer) {
		if err := r.Update(ctx, &widget); err != nil {
			return ctrl.Result{}, err
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: widget.Namespace, Name: widget.Name}}
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"widget": widget.Name}
		size := widget.Spec.Size
		deployment.Spec.Replicas = &size
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:" + widget.Spec.Color}}
		return controllerutil.SetControllerReference(&widget, deployment, r.Scheme())
	})
	if err != nil {
		// A cache that has not heard of its own write yet.
		return ctrl.Result{Requeue: apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)},
			client.IgnoreAlreadyExists(err)
	}
	if done == controllerutil.OperationResultCreated {
		r.recorder.Eventf(&widget, deployment, corev1.EventTypeNormal, "Created", "Creating", "made %s", deployment.Name)
	}
	wanted := WidgetStatus{Wanted: *deployment.Spec.Replicas, ObservedGeneration: widget.Generation}
	if widget.Status == wanted {
		return ctrl.Result{}, nil
	}
	widget.Status = wanted
	return ctrl.Result{}, r.Status().Update(ctx, &widget)
}

// Deletes what the index finds, then lets the widget go.
func (r *reconciler) tidyUp(ctx context.Context, widget *Widget) error {
	var owned appsv1.DeploymentList
	in, by := client.InNamespace(widget.Namespace), client.MatchingFields{byOwner: widget.Name}
	if err := r.List(ctx, &owned, in, by); err != nil {
		return err
	}
	for n := range owned.Items {
		if err := client.IgnoreNotFound(r.Delete(ctx, &owned.Items[n])); err != nil {
			return err
		}
	}
	if controllerutil.RemoveFinalizer(widget, finalizer) {
		return client.IgnoreNotFound(r.Update(ctx, widget))
	}
	return nil
}

func ownerOf(object client.Object) []string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Widget" {
		return nil
	}
	return []string{owner.Name}
}
