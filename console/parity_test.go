package console

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/api"
)

// withoutButton are routes that change something and have no button, with the reason.
var withoutButton = map[string]string{
	"POST /v1/topics/{topic}/messages": "the form names the topic: POST /v1/messages",
	"POST /v1/messages/{id}/reclaim":   "the form of the command does: pawl reclaim, of the page of workers",
}

// TestEveryChangeHasItsButton looks for each route of the API that changes something in what the pages offer. Commands
// without a route of their own have a form by themselves: TestOfferedCommandsHaveAPage of internal/cli.
func TestEveryChangeHasItsButton(t *testing.T) {
	var all strings.Builder
	for _, text := range sources(t) {
		all.WriteString(text)
	}
	for _, r := range api.Routes() {
		if r.Method != http.MethodPost || strings.HasPrefix(r.Console, "(") {
			continue
		}
		name := r.Method + " " + r.Path
		path := strings.TrimPrefix(regexp.MustCompile(`\{\w+\}`).ReplaceAllString(r.Path, "%s"), "/v1")
		asked := regexp.MustCompile(`(post\([^\n]*"|Act[( ][^\n]*"/v1)` + regexp.QuoteMeta(path) + `"`)
		kind := strings.TrimPrefix(path, "/dead/")
		has := asked.MatchString(all.String()) ||
			strings.Contains(all.String(), `"Kind" "`+kind+`"`) // of many: one form plans them all
		switch {
		case !has && withoutButton[name] == "":
			t.Errorf("%s has no button, and no reason why", name)
		case has && withoutButton[name] != "":
			t.Errorf("%s has a button; it needs no reason", name)
		}
	}
}
