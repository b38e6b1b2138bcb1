package doctor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestDoctorNamesWhatHoldsATopicUp: more workers are the answer to one cause only.
func TestDoctorNamesWhatHoldsATopicUp(t *testing.T) {
	settle := func(verdict store.Verdict, throttled bool, kind, text string) func(*testing.T, store.Store,
		[]pawl.Delivery) {
		return func(t *testing.T, s store.Store, ds []pawl.Delivery) {
			var b store.Batch[store.Settlement]
			for _, del := range ds {
				b.Items = append(b.Items, store.Settlement{
					Token: del.Token, ID: del.ID, Verdict: verdict, After: time.Hour, Throttled: throttled,
					Failure: store.Failure{Kind: pawl.Kind(kind), Error: text},
				})
			}
			if refused, err := s.Settle(t.Context(), b); err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
		}
	}
	for name, c := range map[string]struct {
		key  func(i int) []byte
		then func(*testing.T, store.Store, []pawl.Delivery)
		wait time.Duration
		want string
	}{
		"hung":    {then: nil, wait: 3 * time.Minute, want: "a handler hangs: 8 of 8 are near their deadline, the oldest has been running for 3m0s; the deadline ends it at"},
		"at work": {then: nil, wait: 2 * time.Minute, want: ""},
		"500s": {then: settle(store.Retry, false, "HTTP5xx", "500 Internal Server Error"),
			want: "8 of 8 delayed messages wait for a retry, most of them (8) after HTTP5xx: 500"},
		"throttled": {then: settle(store.Retry, true, "RateLimit", "429"),
			want: "the downstream refuses work for now: 8 of 8"},
		"given back": {then: settle(store.Release, false, "", "503 Service Unavailable"),
			want: "given back or throttled: 503 Service"},
		"our limit": {then: settle(store.Release, false, "", store.LimitedBy("api")), want: ""},
		"one key": {key: func(i int) []byte { return fmt.Append(nil, "k", min(i, 1)) }, wait: 2 * time.Minute,
			want: `29 of the first 29 that wait have the key "k1"`},
		"more keys": {key: func(i int) []byte { return fmt.Append(nil, "k", i%10) }, wait: 2 * time.Minute, want: ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Config{})
			n := 8
			var b store.Batch[pawl.Message]
			if c.key != nil {
				n = 31
			}
			for i := range n {
				m := pawl.Message{Topic: "t", ID: fmt.Sprint("m", i)}
				if c.key != nil {
					m.Key = c.key(i)
				}
				b.Items = append(b.Items, m)
			}
			_, err := s.Append(t.Context(), b)
			ds, claimErr := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 8, Run: 1}},
				store.Lease{Owner: "w", For: 10 * time.Minute})
			if err := errors.Join(err, claimErr); err != nil {
				t.Fatal(err)
			}
			if c.then != nil {
				c.then(t, s, ds)
			}
			time.Sleep(c.wait)
			d := &Doctor{}
			d.topics(t.Context(), s)
			var all []string
			for _, f := range d.found {
				if strings.HasPrefix(f.Check, "topic ") && f.Verdict != Well {
					all = append(all, f.Detail)
					if strings.Contains(f.Fix, "more workers or concurrency") {
						t.Errorf("%s: %s", name, f.Fix)
					}
				}
			}
			if said := strings.Join(all, "; "); !strings.Contains(said, c.want) || c.want == "" && said != "" {
				t.Errorf("%s: %q, want %q", name, said, c.want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDoctorNamesAFewThatFail for a while, where nothing else of their topic is wrong: a downstream that is away while
// little is sent.
func TestDoctorNamesAFewThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		defer func() { _ = s.Close() }()
		if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t", ID: "m"})); err != nil {
			t.Fatal(err)
		}
		for n, want := range []string{"1 delayed", "attempts fail: 1 of 1 delayed messages wait for a retry"} {
			ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1}},
				store.Lease{Owner: "w", For: time.Minute})
			if err != nil || len(ds) != 1 {
				t.Fatal(ds, err)
			}
			refused, err := s.Settle(t.Context(), store.NewBatch(store.Settlement{Token: ds[0].Token, ID: "m",
				Verdict: store.Retry, After: 2 * time.Minute, Failure: store.Failure{Kind: "Service", Error: "refused"}}))
			if err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			d := &Doctor{}
			stats, err := s.Stats(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			d.topic(t.Context(), s, &stats[0], map[string]bool{"t": true})
			if len(d.found) != 1 || !strings.Contains(d.found[0].Detail, want) {
				t.Errorf("after attempt %d: %+v", n+1, d.found)
			}
			time.Sleep(2 * time.Minute)
		}
	})
}

// TestDoctorAdvisesNoLongerDeadline than the topic has.
func TestDoctorAdvisesNoLongerDeadline(t *testing.T) {
	for deadline, want := range map[time.Duration]string{
		20 * time.Second: "", time.Minute: "", 10 * time.Minute: "pawl topics set t --deadline 5m0s",
	} {
		got := shorter(&store.TopicStats{Topic: store.Topic{Name: "t", Deadline: deadline}})
		if !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("for %v: %q", deadline, got)
		}
	}
}

// TestDoctorNamesAPoisonMessage and how much waits behind it.
func TestDoctorNamesAPoisonMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		defer func() { _ = s.Close() }()
		lease := store.Lease{Owner: "w", For: time.Minute}
		look := func(d *Doctor) {
			stats, err := s.Stats(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			d.topic(t.Context(), s, &stats[0], map[string]bool{"t": true})
		}
		var b store.Batch[pawl.Message]
		for i := range 9 {
			b.Items = append(b.Items, pawl.Message{Topic: "t", ID: fmt.Sprint("$m", i), Key: []byte("k")})
		}
		if _, err := s.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1, Run: 1}}, lease)
			if err != nil || len(ds) != 1 {
				t.Fatal(ds, err)
			}
			refused, err := s.Settle(t.Context(), store.NewBatch(store.Settlement{Token: ds[0].Token, ID: ds[0].ID,
				Verdict: store.Retry, After: 10 * time.Second, Failure: store.Failure{Kind: "Command", Error: "signal: killed",
					Attrs: map[string]string{handler.AttrEnded: "true"}}}))
			if err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			time.Sleep(11 * time.Second)
		}
		d := &Doctor{}
		look(d)
		found := fmt.Sprintf("%+v", d.found)
		if !strings.Contains(found, "message $m0 has ended the program that handles it 4 times: signal: killed") ||
			!strings.Contains(found, "pawl skip '$m0'") {
			t.Error(found)
		}
		ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1, Run: 1}}, lease)
		if err != nil || len(ds) != 1 {
			t.Fatal(ds, err)
		}
		if _, err := s.Settle(t.Context(), store.NewBatch(store.Settlement{Token: ds[0].Token, ID: ds[0].ID,
			Verdict: store.Retry, After: time.Hour, Failure: store.Failure{Kind: "Command",
				Error: "exit status 1"}})); err != nil {
			t.Fatal(err)
		}
		d = &Doctor{}
		look(d)
		found = fmt.Sprintf("%+v", d.found)
		if !strings.Contains(found, `8 waiting behind message $m0 of the key "k", which is retried at`) ||
			!strings.Contains(found, "pawl messages run '$m0'") {
			t.Error(found)
		}
		if last := d.found[len(d.found)-1]; last.Runbook != "PawlHotKey" || last.Message != "$m0" {
			t.Errorf("its page and its message: %+v", last)
		}
	})
}

// TestDoctorCallsNoLostHandlerHanging: a lease that has ended has no handler any more.
func TestDoctorCallsNoLostHandlerHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		defer func() { _ = s.Close() }()
		now := time.Now()
		topic := &store.TopicStats{Topic: store.Topic{Name: "t"}, Leased: 1}
		for until, hangs := range map[time.Duration]bool{time.Minute: true, -time.Minute: false} {
			d := &Doctor{}
			lease := &store.LeaseRecord{Owner: "w", StartedAt: now.Add(-4 * time.Minute), Until: now.Add(until),
				Deadline: now.Add(time.Minute)}
			one := listed{record: store.Record{Message: pawl.Message{ID: "m"}, Lease: lease}}
			if err := d.hung(t.Context(), s, one, topic); err != nil || (len(d.found) > 0) != hangs {
				t.Errorf("a lease that ends in %v: %+v, %v", until, d.found, err)
			}
		}
	})
}

// listed lists one record.
type listed struct {
	store.Inspector
	record store.Record
}

func (l listed) List(context.Context, store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) { yield(l.record, nil) }
}
