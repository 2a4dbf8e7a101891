package main

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apireg "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var seen = map[reflect.Type]bool{}
var lines = map[string][]string{}

func visit(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] || !strings.Contains(t.PkgPath(), "k8s.io") || t == reflect.TypeOf(metav1.Time{}) {
		return
	}
	seen[t] = true
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		j := strings.Split(f.Tag.Get("json"), ",")[0]
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		b := ft
		note := ""
		if b.PkgPath() == "" && (b.Kind() == reflect.Slice || b.Kind() == reflect.Map) {
			b = b.Elem()
		}
		if b.Kind() == reflect.Pointer {
			b = b.Elem()
		}
		if b.PkgPath() != "" && b.Kind() != reflect.Struct && j != "" && j != "-" {
			note = b.String()
			lines[t.PkgPath()+" "+t.Name()] = append(lines[t.PkgPath()+" "+t.Name()], "."+j+" "+note)
		}
		visit(ft)
	}
}

func main() {
	s := runtime.NewScheme()
	for _, f := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiext.AddToScheme, apireg.AddToScheme} {
		if err := f(s); err != nil {
			panic(err)
		}
	}
	served := map[string]bool{"/v1": true, "autoscaling/v2": true}
	for gvk, t := range s.AllKnownTypes() {
		if gvk.Version == "v1" || (gvk.Group == "autoscaling" && gvk.Version == "v2") {
			visit(t)
		}
	}
	_ = served
	var keys []string
	for k := range lines {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	pkg := ""
	for _, k := range keys {
		p := strings.Split(k, " ")
		if p[0] != pkg {
			pkg = p[0]
			fmt.Println("P", pkg)
		}
		fmt.Println("T", p[1], strings.Join(lines[k], " "))
	}
}
