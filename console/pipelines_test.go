package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
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
	// What takes longer than 5 s goes on, and has a page.
	answer, _ := r.do(r.as(secretOf(api.Operator), http.MethodPost, "/console/commands/project.rebuild",
		url.Values{"w:args": {"search"}}))
	if page = r.get(secretOf(api.Operator), answer.Header.Get("Location")); !strings.Contains(page, progress) {
		t.Errorf("the page of a rebuild that goes on:\n%s", page)
	}
}
