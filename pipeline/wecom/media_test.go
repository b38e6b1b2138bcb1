package wecom

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline"
)

// A file that was there stays as it is until all of the new one has arrived.
func TestMediaReplacesAFileAsAWhole(t *testing.T) {
	t.Parallel()
	answers := map[string]func(http.ResponseWriter){
		"refused": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"errcode":40007,"errmsg":"invalid media_id"}`))
		},
		"broken": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "image/png")
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("a part"))
		},
		"whole": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write([]byte("new"))
		},
	}
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) { answers[r.URL.Query().Get("media_id")](w) })
	to := filepath.Join(t.TempDir(), "photo.png")
	if err := os.WriteFile(to, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"refused", "broken", "whole"} {
		_, err := c.saveMedia(t.Context(), id, to)
		want := "old"
		if id == "whole" {
			want = "new"
		}
		if got, _ := os.ReadFile(to); string(got) != want || (err == nil) != (id == "whole") {
			t.Errorf("%s: the file is %q, the error %v", id, got, err)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(to)); len(left) != 1 {
		t.Errorf("%d files are left", len(left))
	}
	if _, err := c.saveMedia(t.Context(), "whole", t.TempDir()); err == nil {
		t.Error("a folder was replaced")
	}
}

// Who asks for a file learns what went wrong, and not that the command line is invalid.
func TestMediaSaysWhyItCannotBeFetched(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for id, why := range map[string]string{"no-such-id": "40007", "media-1": ""} {
		in := r.invocation(map[string]any{"to": "-"}, id)
		var out strings.Builder
		in.Stdout = &out
		err := runMedia(t.Context(), in)
		told, is := errors.AsType[*pipeline.Error](err)
		switch {
		case why == "" && (err != nil || !strings.HasSuffix(out.String(), id)):
			t.Errorf("%s: %q, %v", id, out.String(), err)
		case why != "" && (!is || told.Next == "" || !strings.Contains(err.Error(), why) || out.Len() > 0):
			t.Errorf("%s: %q, %v", id, out.String(), err)
		}
	}
}

// TestMediaThatIsAText: a file may have the type of WeCom's errors. It is a file where the answer says so.
func TestMediaThatIsAText(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"text/plain": "a note", "application/json": `{"a":1}`} {
		c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Disposition", `attachment; filename="note"`)
			_, _ = w.Write([]byte(want))
		})
		to := filepath.Join(t.TempDir(), "note")
		_, err := c.saveMedia(t.Context(), "one", to)
		if got, _ := os.ReadFile(to); err != nil || string(got) != want {
			t.Errorf("%s: the file is %q, the error %v", kind, got, err)
		}
	}
}
