package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store/memory"
)

// ignores wants as many values refused, and ignored now.
func ignores(t *testing.T, f statesync.Figures, refused, ignored int64, when string) {
	t.Helper()
	if f.Refused != refused || f.Ignored != ignored {
		t.Errorf("%s: %d refused, %d ignored, want %d and %d", when, f.Refused, f.Ignored, refused, ignored)
	}
}

// Overrides that an operator sets decide in a running process, before and after a reload, until they are removed. What
// is no override, or would weaken the file, changes nothing.
func TestOverridesInTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		defer func() { _ = s.Close() }()
		match := policy.Match{Kind: policy.KindRateLimit}
		file, err := Matrix(policy.Override{Match: match, Alert: new(policy.Error), Origin: "pawl.yaml:3"})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		p := newLivePolicy(file, logger)
		watched, err := openOverrides(s, "w", logger)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := statesync.New[json.RawMessage](s, policyTopic, statesync.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go p.watch(ctx, watched)
		put := func(name, text string) {
			t.Helper()
			if _, err := texts.Put(ctx, name, json.RawMessage(text), statesync.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		decides := func(attempts int, alert policy.Alert, when string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			d := p.Decide(policy.Attempt{Number: 1, Err: pawl.OfKind(policy.KindRateLimit, context.DeadlineExceeded)})
			if d.MaxAttempts != attempts || d.Alert != alert {
				t.Errorf("%s: %d attempts, alert %v, want %d and %v", when, d.MaxAttempts, d.Alert, attempts, alert)
			}
		}
		decides(policy.DefaultAttempts, policy.Error, "the file")
		put("weak", `{"match":{"kind":"RateLimit"},"alert":"warn"}`)
		decides(policy.DefaultAttempts, policy.Error, "set to what is weaker than the file")
		p.load(file)
		ignores(t, watched.Figures(), 1, 1, "weaker, twice in a row")
		put("few", `{"match":{"kind":"RateLimit"},"max_attempts":3}`)
		if _, err := texts.Delete(ctx, "weak", statesync.AnyVersion); err != nil {
			t.Fatal(err)
		}
		decides(3, policy.Error, "set")
		ignores(t, watched.Figures(), 1, 0, "the weaker one is removed")
		put("few", `{"match":{"kind":"RateLimit"},"max_attempts":0}`)
		decides(3, policy.Error, "set to what is none")
		ignores(t, watched.Figures(), 1, 1, "set to what is none")
		for _, want := range []string{"max_attempts", "state policy/weak: alert"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log says nothing of %s: %s", want, log.String())
			}
		}
		if watched.Figures().Poisoned == 0 {
			t.Error("what is no override is not counted")
		}
		if file, err = Matrix(); err != nil {
			t.Fatal(err)
		}
		p.load(file)
		decides(3, policy.Warn, "reloaded")
		shown, refused, err := Overridden(ctx, s, file)
		if err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		d, rule, _ := shown.Explain(policy.Attempt{Number: 1, Err: pawl.OfKind(policy.KindRateLimit, context.Canceled)})
		if d.MaxAttempts != 3 || rule.Origin != "state policy/few" {
			t.Errorf("%d attempts by %s", d.MaxAttempts, rule.Origin)
		}
		if _, err := texts.Delete(ctx, "few", statesync.AnyVersion); err != nil {
			t.Fatal(err)
		}
		decides(policy.DefaultAttempts, policy.Warn, "removed")
	})
}
