package project

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/outbox"
	"github.com/pawl-dev/pawl/store"
)

// A document whose request gets no answer, or is refused by what stands before the index, is found: its neighbours are
// written, and it alone has attempts, and dies. One that was refused with 403 parked the projection for ever.
func TestPoisonIsAlone(t *testing.T) {
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request){
		"reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"502":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"403":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"404":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"406":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotAcceptable) },
		"302": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/blocked")
			w.WriteHeader(http.StatusFound)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				r.proxy.breaks(func(w http.ResponseWriter, req *http.Request, body []byte) bool {
					if bulk(req) && bytes.Contains(body, []byte(`"poison"`)) {
						fault(w, req)
						return true
					}
					return false
				})
				for id := range 100 {
					name := "good"
					if id == 42 || id == 77 {
						name = "poison"
					}
					r.put(id, name, 1)
				}
				r.daemon()
				r.until("the neighbours are written", func() bool { return r.left() == "2" })
				r.until("two are dead", func() bool { return r.standing().failed == 2 })
				r.drained()
				if n := len(r.index()); n != 98 {
					r.t.Errorf("%d documents, want 98", n)
				}
				got := r.one(`SELECT max(doc_id) || ' ' || min(doc_id) || ' ' || min(attempts) FROM dead_letter_outbox`)
				if got != "77 42 4" {
					r.t.Errorf("dead are %q", got)
				}
			})
		})
	}
}

// left is how many changes are not in the index.
func (r *rig) left() string { return r.one(`SELECT count(*) FROM pawl_outbox_status`) }

// The same when the server dies of it each time, and is away for a while: nobody else has an attempt.
func TestPoisonThatEndsTheServer(t *testing.T) {
	onBoth(t, func(r *rig) {
		away := make(chan time.Time, 1)
		away <- time.Time{}
		r.proxy.breaks(func(w http.ResponseWriter, req *http.Request, body []byte) bool {
			until := <-away
			if bulk(req) && bytes.Contains(body, []byte(`"poison"`)) && time.Now().After(until) {
				until = time.Now().Add(300 * time.Millisecond)
			}
			away <- until
			if time.Now().Before(until) {
				panic(http.ErrAbortHandler)
			}
			return false
		})
		for id := range 60 {
			name := "good"
			if id == 42 {
				name = "poison"
			}
			r.put(id, name, 1)
		}
		r.daemon()
		r.until("the neighbours are written", func() bool { return r.left() == "1" })
		r.until("one is dead", func() bool { return r.standing().failed == 1 })
		r.drained()
		if got := r.one(`SELECT max(doc_id) || ' ' || min(attempts) FROM dead_letter_outbox`); got != "42 4" {
			r.t.Errorf("dead is %q", got)
		}
	})
}

// An id that is not UTF-8, and a document of several lines that is no JSON, are refused by themselves.
func TestNoDocumentOfItsOwn(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(1, "good", 1)
		p := r.projection()
		r.daemon()
		headers := map[string]string{OutboxOp: "upsert", OutboxVersion: "1"}
		var batch []pawl.Message
		for key, body := range map[string]string{
			"\xff\xfe": `{"name":"odd"}`,
			"lines":    "{}\n" + `{"delete":{"_index":"` + r.alias + `","_id":"1","version":9,"version_type":"external"}}`,
		} {
			batch = append(batch, pawl.Message{Topic: p.topic, Key: []byte(key), Headers: headers, Body: []byte(body)})
		}
		_, err := r.store.Append(r.t.Context(), store.NewBatch(batch...))
		r.ok(err)
		r.ok(outbox.Insert(r.t.Context(), r.db, outbox.Change{Projection: r.alias, DocID: "2", Version: 1,
			Doc: `{"name":"good"}`}))
		r.until("both are dead", func() bool { return r.standing().failed == 2 })
		r.drained()
		if got := r.index(); len(got) != 2 || !strings.Contains(got["1"], "good") {
			r.t.Errorf("the index has %v", got)
		}
	})
}
