package serve

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestTopicsAreRetriedForADay: unless their section says otherwise.
func TestTopicsAreRetriedForADay(t *testing.T) {
	c := configured(t, `
topics:
  a: {handler: exec, command: cat}
  b: {handler: exec, command: cat, retry: {attempts: 3}}
  c: {handler: exec, command: cat, retry: {for: 1h, backoff: {base: 1s, max: 2s}}}
  d: {handler: exec, command: cat, retry: {backoff: {max: 1m}}}
`)
	want := []policy.Retries{{For: 24 * time.Hour}, {Attempts: 3},
		{For: time.Hour, Base: time.Second, Max: 2 * time.Second}, {For: 24 * time.Hour, Max: time.Minute}}
	s := memory.New(memory.Config{})
	for i := range c.Topics {
		served := &servedTopic{topic: c.Topics[i], runner: plain{}}
		if got := dispatch.RetriesOn(s, served.dispatched().Retries); got != want[i] {
			t.Errorf("%s: %+v, want %+v", c.Topics[i].Name, got, want[i])
		}
	}
}
