// Command crawlbench crawls one local site with Pawl and its peers in turn, and prints pages per second and how they
// compare. Every arm is a process of its own. It never fails on speed, but on a page that is missing.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/command"
	"github.com/pawl-dev/pawl/bench/internal/rounds"
)

// parallel is how many requests every arm has in flight.
const parallel = 16

//go:embed spider.py
var spider string

func main() { command.Main("crawlbench", run) }

func run(ctx context.Context, args []string) error {
	if len(args) == 2 { // an arm, started by the program itself
		switch args[0] {
		case "colly":
			return collyArm(args[1])
		case "bare":
			return bareArm(args[1])
		}
	}
	flags := flag.NewFlagSet("crawlbench", flag.ContinueOnError)
	pages := flags.Int("pages", 20_000, "pages of the site")
	times := flags.Int("rounds", 3, "rounds: every arm in each")
	pawl := flags.String("pawl", "pawl", "the program")
	scrapy := flags.String("scrapy", "", "the program; empty leaves it out")
	if err := flags.Parse(args); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s, err := newSite(*pages)
	if err != nil {
		return err
	}
	defer s.close()
	crawl := func(store string) []string {
		n := strconv.Itoa(parallel)
		return []string{*pawl, "crawl", s.url, "--allow-private", "--concurrency", n, "--per-host", n, "--cache", "off",
			"--store", store, "-q"}
	}
	arm := func(name string, command ...string) rounds.Arm {
		return rounds.Arm{Name: name, Measure: func(ctx context.Context) (float64, error) {
			return s.measure(ctx, name, command)
		}}
	}
	arms := []rounds.Arm{
		arm("pawl", crawl("sqlite:crawl.db")...), arm("colly", self, "colly", s.url),
		arm("pawl-memory", crawl("memory:")...), arm("bare", self, "bare", s.url),
	}
	if *scrapy != "" {
		arms = append(arms, arm("scrapy", *scrapy, "runspider", "spider.py", "-a", "url="+s.url, "-s", "JOBDIR=job",
			"-s", fmt.Sprintf("CONCURRENT_REQUESTS=%d", parallel),
			"-s", fmt.Sprintf("CONCURRENT_REQUESTS_PER_DOMAIN=%d", parallel),
			"-s", "DOWNLOAD_DELAY=0", "-s", "LOG_LEVEL=ERROR", "-O", "pages.jsonl"))
	}
	rates, err := rounds.Measure(ctx, "crawl", "pages/s", *times, arms)
	for _, pair := range [][2]string{{"pawl", "colly"}, {"pawl", "scrapy"}, {"pawl-memory", "bare"}} {
		rates.Compare("crawl", pair[0], pair[1])
	}
	return err
}

// site is a web site of linked pages, which counts what is asked for.
type site struct {
	url    string
	server http.Server
	asked  []atomic.Bool
}

func newSite(pages int) (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{url: "http://" + l.Addr().String() + "/0", asked: make([]atomic.Bool, pages)}
	text := strings.Repeat("<p>Some words of a page that a crawler has to read, and to look for links in.</p>\n", 12)
	s.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil || n < 0 || n >= pages {
			http.NotFound(w, r)
			return
		}
		s.asked[n].Store(true)
		var b bytes.Buffer
		fmt.Fprintf(&b, "<!doctype html><html><head><title>Page %d</title></head><body>", n)
		for k := range 10 { // each page has ten links, and ten pages link to it
			fmt.Fprintf(&b, `<a href="/%d">page</a> `, (n*10+k)%pages)
		}
		b.WriteString(text + "</body></html>")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(b.Bytes())
	})
	go func() { _ = s.server.Serve(l) }()
	return s, nil
}

func (s *site) close() { _ = s.server.Close() }

// measure runs an arm in an empty folder, and wants every page to be asked for.
func (s *site) measure(ctx context.Context, name string, command []string) (float64, error) {
	for i := range s.asked {
		s.asked[i].Store(false)
	}
	dir, err := os.MkdirTemp("", "crawlbench")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "spider.py"), []byte(spider), 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out[max(0, len(out)-500):])
	}
	took := time.Since(began)
	for i := range s.asked {
		if !s.asked[i].Load() {
			return 0, fmt.Errorf("page %d was not asked for", i)
		}
	}
	lines, err := os.ReadFile(filepath.Join(dir, "pages.jsonl"))
	// The peers store some pages twice: two goroutines of Colly may find one link at the same time, and Scrapy asks for
	// its first page again.
	if got := bytes.Count(lines, []byte("\n")); err != nil || got < len(s.asked) && name != "bare" ||
		got > len(s.asked) && strings.HasPrefix(name, "pawl") {
		return 0, errors.Join(err, fmt.Errorf("%d pages in the file, want %d", got, len(s.asked)))
	}
	return float64(len(s.asked)) / took.Seconds(), nil
}
