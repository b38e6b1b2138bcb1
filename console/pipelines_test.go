package console

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// TestPageOfAPipeline: how it is comes before lists, a long list is cut with a word about that, a rebuild has its
// progress, and what an admin may do is there for others, with that reason.
func TestPageOfAPipeline(t *testing.T) {
	said := func(a operate.CommandAnswer) func(context.Context, operate.CommandCall) operate.CommandAnswer {
		return func(context.Context, operate.CommandCall) operate.CommandAnswer { return a }
	}
	long := operate.CommandAnswer{Columns: []string{"DOC"}}
	for i := range 250 {
		long.Rows = append(long.Rows, []string{"doc-" + strconv.Itoa(i)})
	}
	built := make(chan struct{})
	r := commandRig(t,
		operate.Command{Name: "project ls", Use: "pawl project ls", Summary: "List", Run: said(long)},
		operate.Command{Name: "project status", Use: "pawl project status NAME", Summary: "Show", Run: said(
			operate.CommandAnswer{Text: "search: building",
				Data: map[string]any{"rebuild": map[string]any{"done": 12, "total": 500}}})},
		operate.Command{Name: "project rm", Use: "pawl project rm NAME", Changes: true, Run: said(long)},
		operate.Command{Name: "project rebuild", Use: "pawl project rebuild NAME", Changes: true,
			Run: func(context.Context, operate.CommandCall) operate.CommandAnswer {
				<-built
				return operate.CommandAnswer{}
			}})
	defer close(built)
	err := operate.RecordPipeline(t.Context(), r.store, "search", "test", operate.PipelineRecord{Kind: "project"})
	if err != nil {
		t.Fatal(err)
	}
	page := r.get(secretOf(api.Operator), "/console/pipelines/search")
	show, list := strings.Index(page, "search: building"), strings.Index(page, "doc-0")
	if show < 0 || list < show || strings.Contains(page, "doc-100") || !strings.Contains(page, "and 150 more") {
		t.Errorf("the status is at %d, the list at %d:\n%s", show, list, page)
	}
	const progress = `12 / 500 <progress class="wide" max="500" value="12"`
	if !strings.Contains(page, progress) {
		t.Errorf("no progress of the rebuild:\n%s", page)
	}
	if !strings.Contains(page, `<button disabled title="The role admin may do this.">rm</button>`) {
		t.Errorf("what an admin may do:\n%s", page)
	}
	r.config.ReadOnly = true
	if page = r.get(secretOf(api.Operator), "/console/pipelines/search"); strings.Contains(page, ">Actions<") {
		t.Errorf("a console that is read-only:\n%s", page)
	}
	r.config.ReadOnly = false
	// What takes longer than 5 s goes on, and has a page.
	answer, _ := r.do(r.as(secretOf(api.Operator), http.MethodPost, "/console/commands/project.rebuild",
		url.Values{"w:args": {"search"}}))
	if page = r.get(secretOf(api.Operator), answer.Header.Get("Location")); !strings.Contains(page, progress) {
		t.Errorf("the page of a rebuild that goes on:\n%s", page)
	}
}

// TestWhatACrawlStores: a page of a crawl says how many pages it stores a second, and the page of workers leads to what
// one holds, with whose it is.
func TestWhatACrawlStores(t *testing.T) {
	r := newRig(t, nil)
	r.append("shoes.request", pawl.Message{})
	err := operate.RecordPipeline(t.Context(), r.store, "shoes", "test", operate.PipelineRecord{Kind: "crawl",
		Topics: []string{"shoes.request"}})
	if err != nil {
		t.Fatal(err)
	}
	f, now := &r.sites[0].figures, time.Now()
	f.mu.Lock()
	f.past["shoes.store"] = &past{fine: []sample{{At: now.Add(-10 * time.Second), Appended: 10}, {At: now, Appended: 40}}}
	f.mu.Unlock()
	page := r.get(secretOf(api.Viewer), "/console/pipelines/shoes")
	if !strings.Contains(page, `<div class="figure">3</div>pages/s`) {
		t.Errorf("the page of a crawl:\n%s", page)
	}
	lease := store.Lease{Owner: "w/1", For: time.Minute}
	if _, err := r.store.Claim(t.Context(), []store.Want{{Topic: "shoes.request", Limit: 1, Run: 1}}, lease); err != nil {
		t.Fatal(err)
	}
	r.sites[0].memo.forget()
	text, err := json.Marshal(roster.Registration{Owner: "w/1", Topics: []roster.Topic{{Topic: "shoes.request"},
		{Topic: "shoes.store", ReadWhole: true}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.store.(store.Shared).PutState(t.Context(), roster.Prefix+"w", text, store.AnyVersion, "w/1")
	if err != nil {
		t.Fatal(err)
	}
	const held = `/console/messages?topic=shoes.request&amp;state=leased`
	if page = r.get(secretOf(api.Viewer), "/console/workers"); !strings.Contains(page, `href="`+held+`">1</a>`) {
		t.Errorf("what a worker holds:\n%s", page)
	}
	if strings.Contains(page, "shoes.store") {
		t.Errorf("a topic that is read whole has no slots:\n%s", page)
	}
	page = r.get(secretOf(api.Viewer), html.UnescapeString(held))
	if !strings.Contains(page, "<small>w/1, ") {
		t.Errorf("whose it is:\n%s", page)
	}
}
