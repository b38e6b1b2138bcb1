package project

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/outbox"
	"github.com/pawl-dev/pawl/store"
)

// What a transaction commits reaches the index; what it rolls back never does.
func TestChangesReachTheIndex(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(1, "first", 1)
		p, _ := r.daemon()
		r.put(1, "second", 2)
		r.put(2, "other", 1)
		tx, err := r.db.Begin()
		r.ok(err)
		r.ok(outbox.Insert(r.t.Context(), tx, outbox.Change{Projection: r.alias, DocID: "3",
			Doc: map[string]int{"never": 1}}))
		r.ok(tx.Rollback())
		r.put(4, "gone", 1)
		r.drop(4, 2)
		r.drained()
		r.equal()
		if got := r.index(); len(got) != 2 || got["1"] != `{"name":"second"}` {
			r.t.Errorf("the index has %v", got)
		}
		if h := p.Health(r.t.Context()); h.Degraded != "" || h.LastSuccess.IsZero() {
			r.t.Errorf("health: %+v", h)
		}
	})
}

// Changes without a version are in the order of the commits of their document.
func TestOrderOfCommits(t *testing.T) {
	onBoth(t, func(r *rig) {
		for _, name := range []string{"a", "b", "c"} {
			r.ok(outbox.Insert(r.t.Context(), r.db, outbox.Change{Projection: r.alias, DocID: "1",
				Doc: map[string]string{"name": name}}))
		}
		if r.pg {
			// The one that began to insert first commits last of two: the other one waits for it.
			tx, err := r.db.Begin()
			r.ok(err)
			change := func(name string) outbox.Change {
				return outbox.Change{Projection: r.alias, DocID: "1", Doc: `{"name":"` + name + `"}`}
			}
			r.ok(outbox.Insert(r.t.Context(), tx, change("d")))
			done := make(chan error, 1)
			go func() { done <- outbox.Insert(context.Background(), r.db, change("e")) }()
			time.Sleep(100 * time.Millisecond)
			r.ok(tx.Commit())
			r.ok(<-done)
		}
		r.daemon()
		r.drained()
		want := `{"name":"c"}`
		if r.pg {
			want = `{"name":"e"}`
		}
		if got := r.index()["1"]; got != want {
			r.t.Errorf("the index has %s", got)
		}
	})
}

// What is not a change is refused where it is inserted.
func TestOutboxRefuses(t *testing.T) {
	onBoth(t, func(r *rig) {
		for _, values := range []string{
			`NULL, '1', 'upsert', 1, '{}'`, `'a b', '1', 'upsert', 1, '{}'`, `'p', '', 'upsert', 1, '{}'`,
			`'p', '1', 'update', 1, '{}'`,
			`'p', '1', 'upsert', -1, '{}'`, `'p', '1', 'upsert', 1, NULL`, `'p', '1', 'upsert', 1, '[]'`,
			`'p', '1', 'upsert', 1, '{'`,
		} {
			if _, err := r.db.Exec(`INSERT INTO pawl_outbox (projection, doc_id, op, version, doc) VALUES (` + values +
				`)`); err == nil {
				r.t.Errorf("taken: %s", values)
			}
		}
	})
}

// Two daemons, one of which is cut off in the middle, and writers: nothing is lost, nothing older wins.
func TestDaemonsComeAndGo(t *testing.T) {
	onBoth(t, func(r *rig) {
		_, stop := r.daemon()
		r.daemon()
		for v := 1; v <= 20; v++ {
			for id := range 5 {
				r.put(id, "v", v)
			}
			if v == 10 {
				stop()
			}
		}
		r.drop(3, 21)
		r.drained()
		r.equal()
	})
}

// A minute of 429 in short: nothing dies, no attempt is counted, Retry-After is kept.
func TestThrottled(t *testing.T) {
	onBoth(t, func(r *rig) {
		var whole atomic.Bool
		r.proxy.breaks(func(w http.ResponseWriter, req *http.Request, body []byte) bool {
			if !bulk(req) {
				return false
			}
			if whole.Load() {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			} else {
				refuseItems(w, body, http.StatusTooManyRequests, "rejected_execution_exception")
			}
			return true
		})
		r.daemon()
		for id := range 20 {
			r.put(id, "x", 1)
		}
		r.until("throttled", func() bool {
			return r.one(
				`SELECT count(*) FROM pawl_outbox_status WHERE last_error_class = 'throttle' AND attempts = 0`) == "20"
		})
		whole.Store(true)
		n := r.proxy.bulks.Load()
		r.until("refused again", func() bool { return r.proxy.bulks.Load() > n+2 })
		r.proxy.breaks(nil)
		r.drained()
		r.equal()
		if s := r.standing(); s.failed != 0 {
			r.t.Errorf("%+v", s)
		}
	})
}

// A mapping error is a dead letter at once; after the mapping is mended, replay brings it in.
func TestMappingErrorAndReplay(t *testing.T) {
	onBoth(t, func(r *rig) {
		p := r.projection()
		p.mapping = []byte(`{"mappings":{"dynamic":"strict","properties":{"name":{"type":"text"}}}}`)
		first := indexAfter(r.alias, "")
		r.ok(p.search.create(r.t.Context(), first, p.mapping))
		r.ok(p.search.point(r.t.Context(), r.alias, "", first))
		r.daemon()
		r.put(1, "good", 1)
		bad := outbox.Change{Projection: r.alias, DocID: "2", Version: 3, Doc: `{"name":"x","odd":true}`,
			TraceID: "trace-1"}
		r.ok(outbox.Insert(r.t.Context(), r.db, bad))
		r.until("one dead letter", func() bool { return r.standing().failed == 1 })
		row := r.one(
			`SELECT error_class || ' ' || http_status || ' ' || es_error_type || ' ' || attempts || ' ' || trace_id || ' ' || doc_id || ' ' || version || ' ' || replay_count FROM dead_letter_outbox WHERE resolved_at IS NULL`)
		if want := "mapping 400 strict_dynamic_mapping_exception 1 trace-1 2 3 0"; row != want {
			r.t.Errorf("the dead letter is %q, not %q", row, want)
		}
		if id := r.one(`SELECT request_id FROM dead_letter_outbox`); len(id) != 36 {
			r.t.Errorf("the request is %q", id)
		}
		letters, _ := store.As[store.DeadLetters](r.store)
		for rec, err := range letters.Dead(r.t.Context(), store.DeadFilter{Topic: p.topic}) {
			if r.ok(err); rec.History[0].Attrs["http_status"] != "400" {
				r.t.Errorf("the attempt says %+v", rec.History[0])
			}
		}
		if s, err := p.ask(r.t.Context()); err != nil || s.Success == nil {
			r.t.Errorf("the last success is %v, %v", s.Success, err)
		}
		if got := r.one(`SELECT status || ' ' || last_error_class FROM pawl_outbox_status`); got != "failed mapping" {
			r.t.Errorf("the status is %q", got)
		}
		r.ok(r.direct().call(r.t.Context(), http.MethodPut, "/"+r.alias+"/_mapping",
			[]byte(`{"properties":{"odd":{"type":"boolean"}}}`), nil))
		again := replay{projection: p, class: "mapping", who: "ann"}
		r.ok(again.all(r.t.Context(), store.DeadFilter{Topic: p.topic}))
		if again.matched != 1 || again.replayed != 1 {
			r.t.Errorf("matched %d, replayed %d", again.matched, again.replayed)
		}
		r.until("it is in the index", func() bool { return strings.Contains(r.index()["2"], "odd") })
		r.until("it is resolved", func() bool {
			return r.one(`SELECT count(*) FROM dead_letter_outbox
				WHERE resolved_at IS NOT NULL AND resolved_by = 'ann' AND replay_count = 1`) == "1"
		})
	})
}

// While whole requests fail, attempts are not counted, and it heals by itself.
func TestOutage(t *testing.T) {
	onBoth(t, func(r *rig) {
		p, _ := r.daemon()
		r.put(1, "before", 1)
		r.drained()
		r.proxy.breaks(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		for id := range 10 {
			r.put(id, "during", 2)
		}
		n := r.proxy.bulks.Load()
		r.until("health says it", func() bool {
			h := p.Health(r.t.Context())
			return h.Unhealthy && strings.Contains(h.Degraded, "503")
		})
		r.until("more probes than attempts are allowed", func() bool { return r.proxy.bulks.Load() > n+5 })
		r.proxy.breaks(nil)
		r.drained()
		r.equal()
		if s := r.standing(); s.failed != 0 {
			r.t.Errorf("%+v", s)
		}
	})
}

// A row that fails while others succeed has its attempts.
func TestServerErrorsOfOneRow(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.proxy.breaks(func(w http.ResponseWriter, req *http.Request, body []byte) bool {
			if bulk(req) && strings.Contains(string(body), `"poor"`) {
				refuseItems(w, body, http.StatusInternalServerError, "exception")
				return true
			}
			return false
		})
		r.daemon()
		r.put(1, "poor", 1)
		r.until("it is dead", func() bool { return r.standing().failed == 1 })
		if got := r.one(`SELECT error_class || ' ' || attempts FROM dead_letter_outbox`); got != "server 4" {
			r.t.Errorf("the dead letter is %q", got)
		}
	})
}

// A request that is too large is halved; a document that is too large alone is dead alone.
func TestTooLarge(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.proxy.breaks(func(w http.ResponseWriter, req *http.Request, body []byte) bool {
			if bulk(req) && len(body) > 1500 {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return true
			}
			return false
		})
		for id := range 30 {
			r.put(id, "small", 1)
		}
		r.ok(outbox.Insert(r.t.Context(), r.db, outbox.Change{Projection: r.alias, DocID: "huge", Version: 1,
			Doc: `{"x":"` + strings.Repeat("x", 2000) + `"}`}))
		r.daemon()
		r.drained()
		r.equal()
		got := r.one(`SELECT doc_id || ' ' || error_class || ' ' || http_status || ' ' || es_error_type
			FROM dead_letter_outbox`)
		if got != "huge size 413 content_too_long" {
			r.t.Errorf("the dead letter is %q", got)
		}
	})
}

// A lost alias parks the projection: nothing is dead, and no index comes to be by accident.
func TestLostAlias(t *testing.T) {
	onBoth(t, func(r *rig) {
		p, _ := r.daemon()
		r.put(1, "x", 1)
		r.drained()
		first := indexAfter(r.alias, "")
		r.ok(r.direct().call(r.t.Context(), http.MethodDelete, "/"+first+"/_alias/"+r.alias, nil, nil))
		r.put(2, "y", 1)
		r.until("it is degraded", func() bool { return strings.Contains(p.Health(r.t.Context()).Degraded, "alias") })
		if err := r.direct().call(r.t.Context(), http.MethodHead, "/"+r.alias, nil, nil); !missing(err) {
			r.t.Errorf("an index came to be: %v", err)
		}
		r.ok(r.direct().point(r.t.Context(), r.alias, "", first))
		r.drained()
		r.equal()
		if s := r.standing(); s.failed != 0 {
			r.t.Errorf("%+v", s)
		}
	})
}

// An older change that comes after the index has forgotten the deletion does not bring the document back.
func TestNothingIsResurrected(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.values["gc_deletes"] = time.Hour
		p := r.projection()
		first := indexAfter(r.alias, "")
		r.ok(p.search.create(r.t.Context(), first, []byte(`{"settings":{"index.gc_deletes":"0ms"}}`)))
		r.ok(p.search.point(r.t.Context(), r.alias, "", first))
		r.daemon()
		r.put(1, "x", 1)
		r.drop(1, 5)
		r.drained()
		r.ok(outbox.Insert(r.t.Context(), r.db, outbox.Change{Projection: r.alias, DocID: "1", Version: 3,
			Doc: `{"name":"late"}`}))
		r.drained()
		if got := r.index(); len(got) != 0 {
			r.t.Errorf("the index has %v", got)
		}
	})
}

// A tombstone outlives gc_deletes while a dead letter of its document is there.
func TestTombstoneOutlivesItsTime(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.proxy.breaks(func(w http.ResponseWriter, req *http.Request, body []byte) bool {
			if bulk(req) && strings.Contains(string(body), `"odd"`) {
				refuseItems(w, body, http.StatusBadRequest, "mapper_parsing_exception")
				return true
			}
			return false
		})
		r.daemon()
		r.ok(outbox.Insert(r.t.Context(), r.db, outbox.Change{Projection: r.alias, DocID: "1", Version: 3,
			Doc: `{"name":"odd"}`}))
		r.until("one dead letter", func() bool { return r.standing().failed == 1 })
		r.drop(1, 5)
		r.drained()
		r.proxy.breaks(nil)
		p := r.projection()
		before, err := p.marks.GetMarks(r.t.Context(), p.tombstoneScope(), "1")
		r.ok(err)
		r.ok(p.prolongTombstones(r.t.Context()))
		after, err := p.marks.GetMarks(r.t.Context(), p.tombstoneScope(), "1")
		r.ok(err)
		if len(before) != 1 || after["1"].Version == before["1"].Version {
			r.t.Errorf("the tombstone was %+v and is %+v", before, after)
		}
		r.ok(r.direct().call(r.t.Context(), http.MethodPut, "/"+r.alias+"/_settings",
			[]byte(`{"index.gc_deletes":"0ms"}`), nil))
		again := replay{projection: p}
		r.ok(again.all(r.t.Context(), store.DeadFilter{Topic: p.topic}))
		r.drained()
		if got := r.index(); len(got) != 0 {
			r.t.Errorf("the index has %v", got)
		}
	})
}

// A rebuild goes on while changes come, and where another daemon left it; the alias moves when all is equal, and back.
func TestRebuild(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.values["batch_size"] = int64(10)
		for id := range 200 {
			r.exec(`INSERT INTO products VALUES ($1, 'seed', 1)`, id)
		}
		_, stop := r.daemon()
		p := r.projection()
		r.put(1, "live", 2)
		r.drained()
		st, err := p.begin(r.t.Context())
		r.ok(err)
		if st.Target != r.alias+"-000002" || st.Total != 200 {
			r.t.Fatalf("%+v", st)
		}
		r.until("some pages", func() bool { st, err := p.state(r.t.Context()); r.ok(err); return st.Done >= 20 })
		stop()
		r.daemon()
		for id := 50; id < 60; id++ {
			r.put(id, "during", 2)
		}
		r.drop(7, 2)
		r.until("the swap", func() bool { st, err := p.state(r.t.Context()); r.ok(err); return st.State == running })
		r.equal()
		st, err = p.state(r.t.Context())
		r.ok(err)
		if st.Index != r.alias+"-000002" || st.Previous != r.alias+"-000001" || st.Verdict != equal {
			r.t.Fatalf("%+v", st)
		}
		r.put(8, "after", 2)
		r.drained()
		_, err = p.rollback(r.t.Context())
		r.ok(err)
		if got := r.index()["8"]; got != `{"name":"after"}` {
			r.t.Errorf("after the rollback it is %q", got)
		}
	})
}

// An abort removes the index that is built, but not once the alias may point to it.
func TestAbort(t *testing.T) {
	onBoth(t, func(r *rig) {
		_, stop := r.daemon()
		r.put(1, "live", 1)
		r.drained()
		stop()
		p := r.projection()
		st, err := p.begin(r.t.Context())
		r.ok(err)
		r.ok(p.abort(r.t.Context()))
		if err := p.abort(r.t.Context()); !errors.Is(err, errNoRebuild) {
			r.t.Errorf("an abort without a rebuild: %v", err)
		}
		if names, err := p.search.named(r.t.Context(), p.alias); err != nil || slices.Contains(names, st.Target) {
			r.t.Errorf("after the abort there are %v, %v", names, err)
		}

		st, err = p.begin(r.t.Context())
		r.ok(err)
		st.State, st.Verdict = verifying, equal // a daemon dies before it stores that the alias has moved
		r.ok(p.put(r.t.Context(), &st))
		r.ok(p.search.point(r.t.Context(), p.alias, st.Index, st.Target))
		if err := p.abort(r.t.Context()); !errors.Is(err, errSwaps) {
			r.t.Errorf("the abort says %v", err)
		}
		if found, err := p.search.behind(r.t.Context(), p.alias); err != nil ||
			!slices.Equal(found, []string{st.Target}) {
			r.t.Errorf("behind the alias are %v, %v", found, err)
		}
	})
}

func TestFlagAndPause(t *testing.T) {
	onBoth(t, func(r *rig) {
		p := r.projection()
		r.ok(p.setFlag(r.t.Context(), flag{Read: "off", By: "ann", Reason: "storm"}))
		if f, err := p.flag(r.t.Context()); err != nil || f.Read != "off" || f.Reason != "storm" {
			r.t.Errorf("%+v, %v", f, err)
		}
	})
}

// What is wrong with files and addresses of a section is said of their keys, before anything runs.
func TestCheckOfASection(t *testing.T) {
	t.Parallel()
	for _, f := range slices.Concat(fields(), fields()[2].Fields) {
		if f.Name != "mapping" && f.Name != "ca_file" {
			continue
		}
		if err := f.Check("none"); err == nil || !strings.Contains(err.Error(), "cannot be used: open none") {
			t.Errorf("a %s that is not there: %v", f.Name, err)
		}
	}
	for address, ok := range map[string]bool{"http://localhost:9200": true, "https://u:p@search/x": true,
		"localhost:9200": false, "ftp://x": false, "http://": false, "http//x": false} {
		if err := fields()[2].Fields[0].Check(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// What a frozen daemon holds beyond its lease is being processed, and stuck, for the view and the command alike,
// until a process takes it back.
func TestViewAndStatusAgreeAboutProcessing(t *testing.T) {
	onBoth(t, func(r *rig) {
		for id := range 3 {
			r.put(id, "x", 1)
		}
		agree := func(when string, pending, processing, stuck int64) {
			r.t.Helper()
			looks, err := open.Open(r.t.Context(), open.Config{URL: r.url, Look: true})
			r.ok(err)
			defer func() { _ = looks.Close() }()
			p := r.projection()
			r.ok(p.use(looks))
			s, err := p.ask(r.t.Context())
			view := r.one(`SELECT count(*) FROM pawl_outbox_status WHERE status = 'processing'`)
			if err != nil || s.Pending != pending || s.Processing != processing || s.Stuck != stuck ||
				view != fmt.Sprint(processing) {
				r.t.Errorf("%s: %+v, %v; the view says %s; want %d, %d, %d", when, s, err, view, pending, processing,
					stuck)
			}
		}
		p := r.projection()
		ds, err := r.store.Claim(r.t.Context(), []store.Want{{Topic: p.topic, Limit: 3}},
			store.Lease{For: 2 * time.Second, Owner: "w"})
		if r.ok(err); len(ds) != 3 {
			r.t.Fatalf("%d of 3 changes", len(ds))
		}
		agree("while the lease lasts", 0, 3, 0)
		time.Sleep(2*time.Second + 100*time.Millisecond)
		agree("after it", 0, 3, 3)
		agree("after that", 0, 3, 3)
		_, err = p.reclaim(r.t.Context(), 0, false)
		r.ok(err)
		agree("taken back", 3, 0, 0)
	})
}
