package cli

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/store/memory"
)

// withoutRoute are commands that have no route, with the reason.
var withoutRoute = map[string]string{
	"version": "about the program", "docs": "about the program", "completion": "about the shell", "help": "about the program",
	"bench": "about this machine", "demo": "runs a program here", "up": "runs a program here", "api": "it is the API",
	"console": "runs a program here",
	"work":    "runs a program here", "config": "about a file here", "migrate": "the schema is changed beside the store",
	"blobs": "about a folder here", "traffic": "moves between stores, by their URLs",
	"kafka topics ensure": "about a cluster",
	"topics show":         "GET /v1/topics/{topic} has settings and figures",
	"dead export":         "GET /v1/dead has all of it", "dead import": "reads a file here",
	"state watch": "GET /v1/state/{topic} is asked again",
}

// TestRoutesAndCommands compares the table of routes with the commands, and with the description of the routes.
func TestRoutesAndCommands(t *testing.T) {
	s := &session{}
	commands := map[string]bool{}
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			if name := strings.TrimSpace(path + " " + sub.Name()); sub.GroupID != groupPipelines || sub.Name() == "pipelines" {
				if sub.HasSubCommands() {
					walk(sub, name)
				} else if c.HasParent() || sub.GroupID != "" {
					commands[name] = true
				}
			}
		}
	}
	walk(s.root(), "")
	routed := map[string]bool{}
	for _, c := range s.offered() {
		routed[c.Name] = true
	}
	for _, r := range api.Routes() {
		if r.Console == "" {
			t.Errorf("%s %s has no action of the console, and no reason", r.Method, r.Path)
		}
		if routed[r.Command] = true; !commands[r.Command] && !strings.HasPrefix(r.Command, "(") && r.Command != "work" {
			t.Errorf("%s %s is for the command %q, which there is not", r.Method, r.Path, r.Command)
		}
	}
	for name := range commands {
		noun, _, _ := strings.Cut(name, " ")
		if !routed[name] && withoutRoute[name] == "" && withoutRoute[noun] == "" {
			t.Errorf("the command %q has no route, and no reason why", name)
		}
	}
	described := description(t)
	for _, r := range api.Routes() {
		key := strings.ToLower(r.Method) + " " + r.Path
		if !slices.Contains(described, key) {
			t.Errorf("%s is not described", key)
		}
	}
	if len(described) != len(api.Routes()) {
		t.Errorf("%d routes are described, %d are there", len(described), len(api.Routes()))
	}
}

// description is the routes that /v1/openapi.json describes.
func description(t *testing.T) (routes []string) {
	t.Helper()
	a, err := api.New(memory.New(memory.Config{}), api.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := a.Server()
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	r, err := http.Get("http://" + l.Addr().String() + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(b, &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method := range methods {
			routes = append(routes, method+" "+path)
		}
	}
	return routes
}
