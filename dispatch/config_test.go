package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

func TestNewReportsEverythingAtOnce(t *testing.T) {
	h := pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { return nil })
	b := pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error { return make([]error, len(ds)) })
	_, err := dispatch.New(nil, dispatch.Config{
		Topics: []dispatch.Topic{
			{Name: "no such name", Handler: h},
			{Name: "none"},
			{Name: "nil", Handler: pawl.HandlerFunc(nil)},
			{Name: "typed", Handler: pawl.Typed[int](nil, nil)},
			{Name: "nils", Batch: pawl.BatchHandlerFunc(nil)},
			{Name: "seldom", Handler: h, PollMax: -1},
			{Name: "both", Handler: h, Batch: b},
			{Name: "twice", Handler: h},
			{Name: "twice", Handler: h},
			{Name: "many", Handler: h, Concurrency: -1, Lease: time.Millisecond, BatchSize: 3},
			{Name: "kept", Handler: h, Concurrency: 2, Reserved: 2},
			{Name: "wide", Batch: b, BatchSize: 1 << 20},
			{Name: "other", Handler: h, Settings: store.Declaration{Name: "another"}},
			{Name: "order", Handler: h, Settings: store.Declaration{Order: "random"}},
		},
		Owner:        strings.Repeat("x", 300),
		Middleware:   []pawl.Middleware{nil},
		DrainTimeout: -1, MaxBytes: -1, PollMin: time.Second, PollMax: time.Millisecond,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`no store`, `topic "no such name": topic "no such name" holds ' '`,
		`topic "none": exactly one of handler and batch handler`, `topic "both": exactly one`,
		`topic "nil": the handler is a nil function`, `topic "typed": the handler is a nil function`, `middleware 0 is nil`,
		`topic "nils": the batch handler is a nil function`,
		`topic "seldom": poll max -1ns`,
		`topic "twice": is given twice`,
		`topic "many": `, `concurrency -1`, `lease of 1ms`, `a batch size or wait needs a batch handler`,
		`topic "kept": 2 slots reserved of 2`,
		`topic "wide": batch size 1048576`, `topic "other": settings are those of topic "another"`,
		`topic "order": settings: order`,
		`owner`, `drain timeout is negative`, `max bytes -1`, `poll max 1ms is less than poll min 1s`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if _, err := dispatch.New(memory.New(memory.Config{}), dispatch.Config{}); err == nil ||
		err.Error() != "no topics" {
		t.Error(err)
	}
	_, err = dispatch.New(memory.New(memory.Config{}), dispatch.Config{
		Topics:     []dispatch.Topic{{Name: "a", Handler: h}},
		Middleware: []pawl.Middleware{func(pawl.Handler) pawl.Handler { return nil }},
	})
	if err == nil || err.Error() != "a middleware makes a nil handler" {
		t.Error(err)
	}
}

// What a store cannot do is refused before anything starts.
func TestNewRefusesWhatTheStoreCannotDo(t *testing.T) {
	c := one(1, func(context.Context, *pawl.Delivery) error { return nil })
	c.UntilEmpty = true
	c.Topics[0].Settings.Deadline = time.Minute
	_, err := dispatch.New(deaf{memory.New(memory.Config{})}, c)
	if err == nil || !strings.Contains(err.Error(), "cannot tell when a topic is empty") ||
		!strings.Contains(err.Error(), "no settings of topics") {
		t.Fatal(err)
	}
}

func TestDefaults(t *testing.T) {
	d, err := dispatch.New(memory.New(memory.Config{}), dispatch.Config{Topics: []dispatch.Topic{
		{Name: "a", Handler: pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { return nil })},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := d.Snapshot()
	equal(t, []int{s.MaxBytes, s.Topics[0].Concurrency}, []int{dispatch.DefaultMaxBytes, dispatch.DefaultConcurrency})
	if s.Owner == "" || d.Ready() == nil {
		t.Fatal(s.Owner, d.Ready())
	}
}
