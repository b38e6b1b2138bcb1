package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// module is one of a program over a test's site.
func (w *web) module(t *testing.T, name string, parse func(context.Context, *Page) error) Module {
	dir := t.TempDir()
	m := Module{Name: name, Options: Defaults(w.URL), Out: filepath.Join(dir, "pages.jsonl"), Parse: parse}
	m.AllowPrivate, m.Cache = true, noCache
	return m
}

func (m *Module) pages(t *testing.T) map[string]Record {
	return (&rig{T: t, dir: filepath.Dir(m.Out)}).pages()
}

// TestModulesOfAProgram: two modules crawl one site side by side. One reads what no selector finds, follows links of
// its own and leaves out others; the other ends at its own limit.
func TestModulesOfAProgram(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{
		"/":       text("text/html; charset=iso-8859-1", "<title>caf\xe9</title>"+links("/a", "/left-out")),
		"/a":      text("text/html", `<title>A</title><i data-next="/hidden"></i>`+links("/b")),
		"/b":      text("text/html", "<title>B</title>"),
		"/list2":  text("text/html", "<title>second</title>"),
		"/hidden": text("text/html", "<title>Hidden</title>"), "/left-out": text("text/html", "<title>?</title>"),
	})
	reads := w.module(t, "reads", func(_ context.Context, p *Page) error {
		p.Fields["length"] = len(p.Title)
		p.Fields["accent"] = strings.Contains(string(p.Body), "café")
		for i, u := range p.Links {
			if u.Path == "/left-out" {
				p.Links = append(p.Links[:i], p.Links[i+1:]...)
				break
			}
		}
		switch p.URL.Path {
		case "/":
			return p.Next("list2")
		case "/a":
			return errors.Join(p.Follow("/hidden"), p.Follow("b"))
		}
		return nil
	})
	ends := w.module(t, "ends", nil)
	ends.MaxPages = 2
	s := memory.New(memory.Config{})
	sums, err := Run(t.Context(), s, slog.New(slog.DiscardHandler), reads, ends)
	if err != nil || len(sums) != 2 || sums[0].Stored != 5 || sums[1].Stored != 2 || sums[0].Dead+sums[1].Dead > 0 {
		t.Fatalf("%+v, %v", sums, err)
	}
	for at, want := range map[string]string{
		"/": "0 map[accent:true length:5]", "/a": "1 map[accent:false length:1]", "/b": "2 map[accent:false length:1]",
		"/list2": "0 map[accent:false length:6]", "/hidden": "2 map[accent:false length:6]",
	} {
		p := reads.pages(t)[at]
		if got := fmt.Sprint(p.Depth, p.Fields); got != want {
			t.Errorf("%s is %s, want %s", at, got, want)
		}
	}
	if n := len(ends.pages(t)); n != 2 {
		t.Errorf("%d pages, want 2", n)
	}
}

// A page that the program cannot read is a dead letter that says so; the next run takes up what was interrupted.
func TestAProgramsErrorIsADeadLetter(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html", links("/good", "/bad")), "/good": text("text/html", "1"), "/bad": text("text/html", "2"),
	})
	ctx, stop := context.WithCancel(t.Context())
	m := w.module(t, "", func(_ context.Context, p *Page) error {
		if stop(); p.URL.Path == "/bad" {
			return errors.New("no price")
		}
		return nil
	})
	s := memory.New(memory.Config{})
	if _, err := Run(ctx, s, slog.New(slog.DiscardHandler), m); err == nil ||
		!strings.Contains(err.Error(), "not finished") {
		t.Fatalf("interrupted, it says %v", err)
	}
	sums, err := Run(t.Context(), s, slog.New(slog.DiscardHandler), m)
	if err != nil || sums[0].Stored != 2 || sums[0].Dead != 1 {
		t.Fatalf("%+v, %v", sums, err)
	}
	letters, _ := store.As[store.DeadLetters](s)
	for l, err := range letters.Dead(t.Context(), store.DeadFilter{Topic: "crawl.request"}) {
		if err != nil || l.Kind != KindParser {
			t.Fatalf("%+v, %v", l, err)
		}
		if attrs := l.History[len(l.History)-1].Attrs; attrs["stage"] != "parser" || attrs["url"] != w.URL+"/bad" {
			t.Errorf("the facts are %v", attrs)
		}
	}
}

func TestModulesAreChecked(t *testing.T) {
	_, err := Run(t.Context(), memory.New(memory.Config{}), nil, Module{Options: Defaults("example.com")},
		Module{Options: Defaults(), Out: "pages.txt"}, Module{Name: "a b", Options: Defaults("http://example.com/")})
	for _, want := range []string{"did you mean https://example.com", "no URL to begin with", "pages.txt", "same name",
		"module a b"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
