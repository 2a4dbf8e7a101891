package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The custom resource: so many replicas of something.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec"`
	Status WidgetStatus `json:"status,omitempty"`
}

type WidgetSpec struct {
	Size  int32  `json:"size"`
	Color string `json:"color,omitempty"`
}

type WidgetStatus struct {
	Wanted             int32 `json:"wanted,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Widget `json:"items"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	out := WidgetList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for n := range l.Items {
		out.Items = append(out.Items, *l.Items[n].DeepCopyObject().(*Widget))
	}
	return &out
}

func register(scheme *runtime.Scheme, group string) {
	version := schema.GroupVersion{Group: group, Version: "v1"}
	scheme.AddKnownTypes(version, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, version)
}

func definition(group string) *unstructured.Unstructured {
	whole := map[string]any{"type": "integer"}
	properties := map[string]any{
		"spec": map[string]any{
			"type": "object", "required": []any{"size"},
			"properties": map[string]any{
				"size":  map[string]any{"type": "integer", "minimum": int64(0)},
				"color": map[string]any{"type": "string", "default": "red"},
			},
		},
		"status": map[string]any{
			"type":       "object",
			"properties": map[string]any{"wanted": whole, "observedGeneration": whole},
		},
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema":       map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": properties}},
			}},
		},
	}}
}
