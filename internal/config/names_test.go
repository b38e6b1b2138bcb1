package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/crawl"
)

const work = "topics: {a: {handler: exec, command: cat}}\n"

// matching is a file with an override for that match, in the second line.
func matching(match string) Source {
	kinds := []*pipeline.Kind{{Name: "crawl", Rules: crawl.Rules()}}
	return Source{Path: "pawl.yaml", Kinds: kinds, Text: fmt.Appendf(nil,
		"%spolicy: {overrides: [{match: {%s}, alert: critical}]}\n", work, match)}
}

// What is known and never comes together would never apply.
func TestAnOverrideThatCanNeverApplyIsRefused(t *testing.T) {
	for match, want := range map[string]string{
		"kind: panic":                    `2:37: policy.overrides[0].match.kind: there is no kind "panic": capitals count; did you mean Panic?`,
		"kind: RATELIMIT":                `2:37: policy.overrides[0].match.kind: there is no kind "RATELIMIT": capitals count; did you mean RateLimit?`,
		"type: download, kind: Download": `2:37: policy.overrides[0].match.type: there is no type "download": capitals count; did you mean Download?`,
		"domain: engine, type: Download, kind: Download":  `2:39: policy.overrides[0].match.domain: there is no domain "engine": capitals count; did you mean Engine?`,
		"domain: System, type: Download, kind: Download":  `2:39: policy.overrides[0].match.domain: Download is a type of domain Engine, not of System; write Engine, or leave it out`,
		"domain: Engine, type: SystemError, kind: Queue":  `2:39: policy.overrides[0].match.domain: SystemError is a type of domain System, not of Engine; write System, or leave it out`,
		"type: Download, phase: Completed, kind: any":     `2:54: policy.overrides[0].match.phase: nothing is decided about Download when it is Completed; use Failed or Retry`,
		"type: SystemError, phase: Completed, kind: any":  `2:57: policy.overrides[0].match.phase: nothing is decided about SystemError when it is Completed; use Failed or Retry`,
		"type: Download, phase: Failed, kind: Any":        `2:68: policy.overrides[0].match.kind: there is no kind "Any": capitals count; did you mean any?`,
		"type: Download, phase: completed, kind: Request": `2:54: policy.overrides[0].match.phase: must be Failed, Retry or Completed (got "completed"); did you mean Completed?`,
	} {
		_, err := Load(matching(match))
		if ps, ok := errors.AsType[Problems](err); !ok || len(ps) != 1 || ps[0].String() != "pawl.yaml:"+want {
			t.Errorf("%s:\ngot  %v\nwant pawl.yaml:%s", match, err, want)
		}
	}
}

// A name that is nearly a known one may be a program's own.
func TestAnOverrideWithASlipOfTheHandIsAWarning(t *testing.T) {
	for match, want := range map[string]string{
		"type: Downlod, kind: Download":                       `2:37: warning: policy.overrides[0].match.type: Pawl knows no type "Downlod"; did you mean Download? a name of your own is right`,
		"kind: Servicce":                                      `2:37: warning: policy.overrides[0].match.kind: Pawl knows no kind "Servicce"; did you mean Service? a name of your own is right`,
		"kind: dataMidleware":                                 `2:37: warning: policy.overrides[0].match.kind: Pawl knows no kind "dataMidleware"; did you mean DataMiddleware? a name of your own is right`,
		"domain: Engin, type: Download, kind: Download":       `2:39: warning: policy.overrides[0].match.domain: Pawl knows no domain "Engin"; did you mean Engine? a name of your own is right`,
		"kind: Payment":                                       "",
		"kind: Form":                                          "",
		"type: Upload, kind: Download":                        "",
		"type: Upload, phase: Completed, kind: any":           "",
		"domain: Shop, type: Cart, kind: Payment":             "",
		"domain: Engine, type: Download, kind: Download":      "",
		"type: Download, phase: Retry, kind: RateLimit":       "",
		"type: SystemHealth, phase: Completed, kind: Service": "",
	} {
		c, err := Load(matching(match))
		if err != nil {
			t.Errorf("%s: %v", match, err)
			continue
		}
		var got strings.Builder
		for i := range c.Warnings {
			got.WriteString(strings.TrimPrefix(c.Warnings[i].String(), "pawl.yaml:"))
		}
		if got.String() != want || len(c.Overrides) != 1 {
			t.Errorf("%s:\ngot  %s\nwant %s", match, got.String(), want)
		}
	}
	_, err := Load(Source{Path: "pawl.yaml", Text: append(matching("kind: Servicce").Text, "drian: 1s\n"...)})
	if ps, ok := errors.AsType[Problems](err); !ok || len(ps) != 2 || len(ps.Faults()) != 1 ||
		ps.Faults()[0].Path != "drian" {
		t.Errorf("beside a fault: %v", err)
	}
}
