package config_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/internal/config"
)

func loadSchedules(text string) (*config.Config, error) {
	return config.Load(config.Source{Path: "conf/pawl.yaml", Text: []byte("schedules:\n" + text),
		ReadFile: func(name string) ([]byte, error) {
			if name != "conf/body.txt" {
				return nil, fmt.Errorf("open %s: no such file", name)
			}
			return []byte("from a file"), nil
		}})
}

func TestSchedules(t *testing.T) {
	c, err := loadSchedules(`
  nightly:
    cron: "30 2 * * 1-5"
    zone: Europe/Berlin
    topic: reports
    json: '{"kind":"nightly"}'
    key: k
    priority: 7
    headers: {a: b}
    jitter: 30s
    overlap: skip
    missed: all
    missed_within: 2d
    paused: true
  poll: {every: 15m, topic: polls, body_file: body.txt}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []cron.Schedule{
		{Name: "nightly", Cron: "30 2 * * 1-5", Zone: "Europe/Berlin", Topic: "reports", Key: []byte("k"), Priority: 7,
			Body: []byte(`{"kind":"nightly"}`), Headers: map[string]string{"a": "b"}, Jitter: 30 * time.Second,
			Overlap: "skip", Missed: "all", MissedWithin: 48 * time.Hour, Paused: true, Origin: "file"},
		{Name: "poll", Every: 15 * time.Minute, Topic: "polls", Body: []byte("from a file"), Overlap: "queue",
			Missed: "once", MissedWithin: 24 * time.Hour, Origin: "file"},
	}
	if !reflect.DeepEqual(c.Schedules, want) {
		t.Errorf("got  %+v\nwant %+v", c.Schedules, want)
	}
	next, err := loadSchedules("  other: {every: 15m, topic: polls}\n")
	if err != nil {
		t.Fatal(err)
	}
	if paths := config.Restart(c, next); len(paths) > 0 {
		t.Errorf("needs a restart: %v", paths)
	}
}

// Every fault is reported at its value, all of them at once.
func TestFaultsOfSchedules(t *testing.T) {
	_, err := loadSchedules(`  a: {cron: 61 * * * *, zone: Local, topic: t}
  b: {every: 1500ms, topic: t}
  c: {cron: 0 0 30 2 *, topic: t}
  d: {topic: a b, missed: never, body: x, json: y}
  e: {cron: "@daily", every: 1h, topic: t, jitter: 2d, body_file: none}
  f: {cron: "@daily"}
  g/h: {cron: "@daily", topic: t}
  i: {cron: "@daily", topic: t, crom: x, key: ""}
  j: {cron: 0 0 30 2 *, topic: t, missed_within: 1s, headers: {Pawl-Tick: x}}
  k: {every: 1m, topic: t, missed_within: 0s}
  l: {cron: 0 0 30 2 *, topic: a b, jitter: 99h, headers: {Pawl-Tick: x}}
`)
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems.Faults() {
		got = append(got, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Path))
	}
	want := `2:13 schedules.a.cron, 2:31 schedules.a.zone, 3:14 schedules.b.every, 4:13 schedules.c.cron, ` +
		`5:3 schedules.d, 5:14 schedules.d.topic, 5:27 schedules.d.missed, 5:49 schedules.d.json, ` +
		`5:49 schedules.d.json, 6:30 schedules.e.every, 6:52 schedules.e.jitter, 6:67 schedules.e.body_file, ` +
		`7:3 schedules.f, 8:3 schedules.g/h, 9:33 schedules.i.crom, 9:47 schedules.i.key, ` +
		`10:13 schedules.j.cron, 10:63 schedules.j.headers, 11:43 schedules.k.missed_within, ` +
		`12:13 schedules.l.cron, 12:32 schedules.l.topic, 12:45 schedules.l.jitter, 12:59 schedules.l.headers`
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s\n%v", text, want, err)
	}
}
