package config

import (
	"errors"
	"strings"
	"testing"
)

// tenFaults are such as people make, each with what follows from it.
const tenFaults = `stor: 'memory:'                      # 1 stor: unknown key; did you mean store?
limts: {m: {rate: 5/s}}              # 1 limts: unknown key; did you mean limits?
listen: 0.0.0.0:9102
alow_remote: true                    # 1 alow_remote: unknown key; did you mean allow_remote?
topics:
  a:
    handlr: &h exec                  # 5 topics.a.handlr: unknown key; did you mean handler?
    command: cat
    limits: [m]
  b:
    handler: *h
    comand: cat                      # 5 topics.b.comand: unknown key; did you mean command?
  c: {handler: http, ulr: 'http://h'} # 22 topics.c.ulr: unknown key; did you mean url?
  d:
    handler: exec
    command: cat
    concurency: 2000                 # 5 topics.d.concurency: unknown key; did you mean concurrency?
    reserved: 1500
policy:
  overrides:
    - macth: {kind: Service}         # 7 policy.overrides[0].macth: unknown key; did you mean match?
      alert: error
    - match: {kind: Command}
      alrt: error                    # 7 policy.overrides[1].alrt: unknown key; did you mean alert?
    - match: {type: Download, kind: Download}
      alert: error
    - match: {type: Download, phase: Faled, kind: Download} # 38 policy.overrides[3].match.phase: must be Failed, Retry or Completed
      alert: error
`

func TestEveryFaultIsReportedOnce(t *testing.T) { faults(t, tenFaults) }

func TestOneFaultIsOneProblem(t *testing.T) {
	topics := func(text string) string { return "topics: {a: {handler: exec, command: cat}}\n" + text }
	override := func(text string) string { return topics("policy: {overrides: [" + text + "]}\n") }
	for name, c := range map[string]struct{ text, want string }{
		"topics":  {"topcs: {a: {handler: exec, command: cat}}", "did you mean topics?"},
		"handler": {"topics: {a: {handlr: exec, command: cat}}", "did you mean handler?"},
		"command": {"topics: {a: {handler: pipe, comand: cat}}", "did you mean command?"},
		"url":     {"topics: {a: {handler: http, ulr: 'http://h'}}", "did you mean url?"},
		"limits": {"limts: {m: {rate: 1/s}}\ntopics: {a: {handler: exec, command: cat, limits: [m]}}",
			"did you mean limits?"},
		"limits' kind": {"limits: 3\ntopics: {a: {handler: exec, command: cat, limits: [m]}}", "must be a mapping"},
		"a limit's name": {"limits: {m n: {rate: 1/s}}\ntopics: {a: {handler: exec, command: cat, limits: [m n]}}",
			"holds ' '"},
		"rate":   {"limits: {m: {rat: 1/s, burst: 3, shared: true}}", "did you mean rate?"},
		"a rate": {"limits: {m: {rate: fast, burst: 3, shared: true}}", "must be a rate"},
		"by":     {"limits: {m: {rate: 1/s, by: chance, shared: true}}", "must be all, key, topic"},
		"concurrency": {"topics: {a: {handler: exec, command: cat, concurency: 900, reserved: 800}}",
			"did you mean concurrency?"},
		"timeout": {"topics: {a: {handler: http, url: 'http://h', deadline: 1s, timeot: 1s}}",
			"did you mean timeout?"},
		"allow_remote":    {"listen: 0.0.0.0:1\nalow_remote: true", "did you mean allow_remote?"},
		"no allow_remote": {"listen: 0.0.0.0:1\nallow_remote: yes", "must be true or false"},
		"a merge":         {"x: &x {handler: exec, command: cat}\ntopics: {a: {<<: *x}}", "unknown key"},
		"match":           {override("{macth: {kind: Service}, alert: error}"), "did you mean match?"},
		"a null match":    {override("{match: , alert: error}, {alert: error, match: {}}"), "has no value"},
		"kind":            {override("{match: {knd: Service}, alert: info}"), "did you mean kind?"},
		"type": {
			override(
				"{match: {tpe: Download, phase: Failed, kind: Download}, alert: error}, {match: {kind: Download}, alert: error}"),
			"did you mean type?"},
		"phase": {
			override(
				"{match: {type: Parser, phase: Fail, kind: Parser}, alert: error}, {match: {type: Parser, kind: Parser}, alert: error}"),
			"must be Failed, Retry or Completed"},
		"a change":  {override("{match: {kind: Service}, alrt: error}"), "did you mean alert?"},
		"max":       {override("{match: {kind: Service}, backoff: {base: 10m, mx: 20m}}"), "did you mean max?"},
		"a max":     {override("{match: {kind: Service}, backoff: {base: 10m, max: 20}}"), "must be a duration"},
		"an anchor": {"topics: {a: {handler: exec, command: cat, nothing: [&d 3s], drain: *d}}", "unknown key"},
		"the same twice": {
			override("{match: {kind: Service}, alert: error}, {match: {kind: Service}, alert: critical}"),
			"matches the same as"},
	} {
		want := 1
		if name == "a merge" || name == "an anchor" {
			want = 2 // each is one of its own
		}
		_, err := Load(Source{Path: "pawl.yaml", Text: []byte(c.text)})
		ps, ok := errors.AsType[Problems](err)
		if !ok || len(ps) != want || ps[0].Line < 1 || ps[0].Column < 1 || !strings.Contains(ps[0].String(), c.want) {
			t.Errorf("%s: want %q once, got %d:\n%v", name, c.want, len(ps), err)
		}
	}
}
