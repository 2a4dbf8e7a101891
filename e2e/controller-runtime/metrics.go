package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Labels whose values are a part of the contract, not of the run.
var fixed = map[string]bool{"result": true}

// Registers a webhook, which nobody calls: its metrics are there from then on.
func registerWebhook() {
	allow := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Allowed("")
	})
	webhook.NewServer(webhook.Options{}).Register("/validate", &admission.Webhook{Handler: allow})
}

// Prints the families of the registry: name, type, labels; of some labels their values. Those of Go's
// own runtime are left out.
func families(out io.Writer) error {
	gathered, err := metrics.Registry.Gather()
	if err != nil {
		return err
	}
	for _, family := range gathered {
		if strings.HasPrefix(family.GetName(), "go_") {
			continue
		}
		labels := map[string]map[string]bool{}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if labels[label.GetName()] == nil {
					labels[label.GetName()] = map[string]bool{}
				}
				if fixed[label.GetName()] {
					labels[label.GetName()][label.GetValue()] = true
				}
			}
		}
		words := []string{family.GetName(), strings.ToLower(family.GetType().String())}
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			word := name
			if values := slices.Sorted(maps.Keys(labels[name])); len(values) > 0 {
				word += "=" + strings.Join(values, "|")
			}
			words = append(words, word)
		}
		if _, err := fmt.Fprintln(out, strings.Join(words, " ")); err != nil {
			return err
		}
	}
	return nil
}
