package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestCommands calls commands: one that looks, one that changes, one that fails, and one that takes long.
func TestCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		commands := []operate.Command{
			{Name: "x ls", Run: func(_ context.Context, c operate.CommandCall) operate.CommandAnswer {
				return operate.CommandAnswer{Text: strings.Join(append(c.Args, c.Flags["state"]...), " ")}
			}},
			{Name: "x put", Changes: true, Run: func(_ context.Context, c operate.CommandCall) operate.CommandAnswer {
				return operate.CommandAnswer{Text: c.Who}
			}},
			{Name: "x rm", Changes: true, Run: func(context.Context, operate.CommandCall) operate.CommandAnswer {
				return operate.CommandAnswer{Code: 6, Error: "there is none"}
			}},
			{Name: "x rebuild", Changes: true, Run: func(context.Context, operate.CommandCall) operate.CommandAnswer {
				<-slow
				return operate.CommandAnswer{Text: "built"}
			}},
		}
		a, err := api.New(memory.New(memory.Config{}), api.Config{Access: api.Access{Tokens: []api.Token{
			{Name: "eye", Secret: "eyeeyeeye", Role: api.Viewer}, {Name: "ops", Secret: "opsopsops", Role: api.Operator},
			{Name: "adm", Secret: "admadmadm", Role: api.Admin},
		}}, Rooms: api.Rooms{Commands: func() []operate.Command { return commands }}})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		call := func(token, method, path, body string) (int, map[string]any) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			answer := map[string]any{}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatalf("%s: %s", path, w.Body)
			}
			return w.Code, answer
		}
		status, got := call("eyeeyeeye", "GET", "/v1/commands/x.ls?arg=a&arg=b&flag=state=dead", "")
		if status != 200 || got["text"] != "a b dead" {
			t.Errorf("x ls: %d %v", status, got)
		}
		if status, got = call("opsopsops", "POST", "/v1/commands/x.put", "{}"); status != 200 || got["text"] != "ops" {
			t.Errorf("x put: %d %v", status, got)
		}
		for _, refused := range []struct {
			token, method, path string
			status              int
		}{
			{"eyeeyeeye", "POST", "/v1/commands/x.put", 403}, {"opsopsops", "GET", "/v1/commands/x.put", 405},
			{"opsopsops", "POST", "/v1/commands/x.rm", 403},
			{"admadmadm", "POST", "/v1/commands/x.rm", 404}, {"opsopsops", "POST", "/v1/commands/up", 404},
		} {
			if status, got = call(refused.token, refused.method, refused.path, ""); status != refused.status {
				t.Errorf("%s %s: %d %v", refused.method, refused.path, status, got)
			}
		}
		status, got = call("opsopsops", "POST", "/v1/commands/x.rebuild", "{}")
		if status != 202 || got["ended_at"] != nil {
			t.Errorf("x rebuild: %d %v", status, got)
		}
		close(slow)
		synctest.Wait()
		id, _ := got["id"].(string)
		if status, got = call("eyeeyeeye", "GET", "/v1/runs/"+id, ""); status != 200 || got["text"] != "built" {
			t.Errorf("its run: %d %v", status, got)
		}
	})
}
