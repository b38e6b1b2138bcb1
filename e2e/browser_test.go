//go:build unix

package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "embed"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axe is axe-core 4.14.1 (MPL-2.0, github.com/dequelabs/axe-core), packed: what judges whether people can use a page
// with a screen reader, or with weak eyes.
//
//go:embed testdata/axe-core-4.14.1.min.js.gz
var axe []byte

// shown is a console on a daemon with something on each of its pages.
const shown = `listen: 127.0.0.1:0
api: { listen: "127.0.0.1:0" }
console: { title: shop }
policy:
  overrides:
    - { match: { kind: Mailbox }, retry: false }
topics:
  mail: { handler: exec, retry: { attempts: 1 },
          command: "case $(cat) in *unknown*) echo '550 no such mailbox' >&2; exit 1;; esac" }
  orders: { handler: exec, command: "cat >/dev/null; sleep 0.02", order: key }
  images: { handler: exec, command: "grep -q poison || exit 0; echo 'not a picture' >&2; exit 75", order: key,
            retry: { for: 1h, backoff: { base: 1s, max: 60s } } }
  reports: { handler: exec, command: "cat >/dev/null" }
schedules:
  nightly: { cron: "30 2 * * 1-5", zone: Europe/Berlin, topic: reports, json: '{"report":"nightly"}' }
  poll: { every: 1s, topic: reports, json: '{"poll":1}' }
pipelines:
  telegram: { kind: forward, token: "777:SIM", api_url: "http://TELEGRAM", admins: [1001] }
`

// look is a way in which each page is looked at.
type look struct {
	width, height int64
	theme         string
}

var looks = []look{{1440, 900, "light"}, {1440, 900, "dark"}, {390, 844, "light"}, {390, 844, "dark"}}

// pagesOfConsole are those that the walk has to find, with names left out.
var pagesOfConsole = []string{
	"", "dead", "dead/group", "topics", "topics/*", "messages", "messages/*", "send", "operations", "operations/*", "audit",
	"workers", "policy", "schedules", "schedules/*", "state", "state/*/*", "pipelines", "pipelines/*", "pipelines/convert",
	"doctor", "runbook",
	"runbook/*",
}

// pictures are those of docs/console, by the pages that they show.
var pictures = map[string]string{"": "overview", "dead": "dead-letters", "topics/mail": "topic",
	"messages/poison": "message", "schedules/nightly": "schedule", "pipelines/telegram": "pipeline"}

// TestConsoleInABrowser walks every page of the console in both languages, both themes and two sizes: nothing is
// asked of another origin, nothing is reported in the browser's console, nothing is wider than a telephone, and axe
// finds nothing serious. With -update it makes the pictures of docs/console.
func TestConsoleInABrowser(t *testing.T) {
	t.Parallel()
	base := consoleWithLife(t)
	for _, lang := range []string{"en", "zh"} {
		t.Run(lang, func(t *testing.T) {
			b := newBrowser(t, base, lang)
			found := b.walk()
			for _, want := range pagesOfConsole {
				if !slices.Contains(found, want) {
					t.Errorf("the walk did not find the page %q; it found %q", want, found)
				}
			}
			for path, name := range pictures {
				if *update && lang == "en" {
					b.picture(path, name)
				} else if *update && path == "" {
					b.picture(path, name+".zh-CN")
				}
			}
		})
	}
}

// consoleWithLife starts a daemon with a console, and gives it something to show.
func consoleWithLife(t *testing.T) (base string) {
	t.Helper()
	address := freeAddress(t)
	in := newIncident(t, strings.Replace(shown, "TELEGRAM", address, 1))
	in.write("sim.address", address)
	in.Cleanup(func() { in.sh("kill $(cat sim.pid)") })
	in.must("pawl forward sim --listen $(cat sim.address) >sim.log 2>&1 & echo $! >sim.pid")
	if *update { // for the pictures
		in.write("past.jsonl", deadYesterday())
		in.must("pawl dead import past.jsonl -q")
	}
	base = in.startConsole()
	in.write("life.jsonl", messagesOfLife())
	in.must(`pawl topics pause orders --reason "the warehouse counts" -q
		pawl send mail --jsonl -q <life.jsonl
		since="$(date -u -d '30 days ago' +%FT%TZ)"
		pawl schedules backfill nightly --since "$since" --until "$(date -u +%FT%TZ)" --yes -q
		pawl state put flags beta '{"on":true}' -q
		mkdir docs && echo '<h1>One</h1>' >docs/one.html
		pawl convert docs --out markdown --store sqlite:pawl.db -q
		pawl forward rules add --from -1000000000001 --to -1000000000002 --priority vip -q
		pawl forward rules add --from -1000000000003 --to -1000000000004 --to -1000000000005 -q`)
	const dead = `pawl dead ls --search unknown -o jsonl | wc -l`
	in.until(dead, "6")
	in.must(`pawl dead replay m1 m2 -q`)
	in.until(dead, "6")
	if *update {
		in.must(`for i in $(seq 400); do echo "{\"body\":\"{}\",\"delay_seconds\":$((i * 7 % 80))}"; done |
				pawl send mail --jsonl -q
			curl -fsS $(cat sim.address)/control/message \
				-d '{"chat": -1000000000001, "from": 1001, "text": "the parcel is here", "count": 12}'`)
	}
	return base
}

// messagesOfLife are mails that cannot be delivered, orders, and a picture that is none before two others of its key.
func messagesOfLife() string {
	var all strings.Builder
	for i := range 9 {
		if i < 6 {
			fmt.Fprintf(&all, `{"topic":"mail","id":"m%d","key":"customer-%d","body":"{\"to\":\"unknown%d\"}"}`+"\n",
				i+1, i%2, i)
		}
		fmt.Fprintf(&all, `{"topic":"orders","id":"o%d","key":"k%d","body":"{\"order\":%d}"}`+"\n", i, i%3, i)
	}
	for _, name := range []string{"poison", "beach", "sunset"} {
		fmt.Fprintf(&all, `{"topic":"images","id":%q,"key":"holiday","body":"{\"file\":\"%s.png\"}"}`+"\n", name, name)
	}
	return all.String()
}

// deadYesterday are dead letters of several causes, as an export has them.
func deadYesterday() string {
	var all strings.Builder
	for i, cause := range []string{"452 mailbox is full", "554 refused as spam", "421 too many connections",
		"451 greylisted, try again later"} {
		for n := range 12 * (i + 1) {
			at := time.Now().Add(-time.Duration((n*n+5*i)%23)*time.Hour - time.Minute).UTC().Format(time.RFC3339)
			fmt.Fprintf(&all, `{"id":"past-%d-%d","topic":"mail","key":"customer-%d","state":"dead",`+
				`"enqueued_at":%[4]q,"dead_at":%[4]q,"body":"{}","kind":"Command","reason":%[5]q,`+
				"\"fingerprint\":\"c0ffee%d\",\"attempt\":1,\"attempts\":[]}\n", i, n, n%9, at, cause, i)
		}
	}
	return all.String()
}

// startConsole starts the daemon, and returns where its console is.
func (in *incident) startConsole() (base string) {
	in.Helper()
	in.start()
	m := regexp.MustCompile(`the API is served" listen=([0-9.:]+)`).FindStringSubmatch(in.must("cat up.err"))
	if m == nil {
		in.Fatal("the daemon serves no API")
	}
	return "http://" + m[1] + "/console/"
}

// browser is a tab that looks at the console.
type browser struct {
	*testing.T
	ctx        context.Context
	base, lang string
	at         string // the page
	axe        string
	mu         sync.Mutex
	said       []string
}

func newBrowser(t *testing.T, base, lang string) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no chromium: apt-get install chromium")
	}
	z, err := gzip.NewReader(bytes.NewReader(axe))
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &browser{T: t, ctx: ctx, base: base, lang: lang, axe: string(script)}
	b.listen()
	command(b, network.Enable, network.EnableParams{})
	command(b, log.Enable, cdp.Empty{})
	command(b, network.SetExtraHTTPHeaders,
		network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": lang}})
	return b
}

// command sends a command to the browser.
func command[P, R any](b *browser, c cdp.Command[P, R], p P) {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, c, p); err != nil {
		b.Fatal(err)
	}
}

// inTab carries out an action, and returns what it sees.
func inTab[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 3*patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatalf("%s: %v", b.at, err)
	}
	return v
}

// listen gathers what a page must not do.
func (b *browser) listen() {
	at, err := url.Parse(b.base)
	if err != nil {
		b.Fatal(err)
	}
	// The browser lives as long as the context of the first call.
	if err := chromedp.Do(b.ctx, chromedp.Navigate("about:blank")); err != nil {
		b.Fatal(err)
	}
	gather(b, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) string {
		if to, err := url.Parse(e.Request.URL); err == nil && to.Host == at.Host {
			return ""
		}
		return "it asks " + e.Request.URL
	})
	gather(b, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) string {
		return fmt.Sprintf("an exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	})
	gather(b, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) string {
		return fmt.Sprintf("console.%s: %+v", e.Type, e.Args)
	})
	gather(b, log.EntryAdded, func(e log.EventEntryAdded) string {
		return fmt.Sprintf("the browser says: %s %s", e.Entry.Text, e.Entry.URL)
	})
}

// gather keeps what is wrong with events of a kind.
func gather[E any](b *browser, kind cdp.Event[E], wrong func(E) string) {
	events := chromedp.Events(b.ctx, kind)
	go func() {
		for e, err := range events {
			if err != nil {
				return
			}
			if text := wrong(e); text != "" {
				b.mu.Lock()
				b.said = append(b.said, text)
				b.mu.Unlock()
			}
		}
	}()
}

// complaints is what was gathered since the last call.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.said
	b.said = nil
	return said
}

// settled waits until what takes the store longer is on the page, too.
const settled = `new Promise(done => {
	const end = Date.now() + 20000
	const look = () => document.querySelector('[data-soon]') && Date.now() < end ? setTimeout(look, 50) : done(true)
	look()
})`

// walk follows links to every kind of page, and looks at one of each. It returns them, with names left out.
func (b *browser) walk() (kinds []string) {
	b.Helper()
	type link struct{ from, to string }
	links := []link{{to: b.base}}
	for len(links) > 0 {
		next := links[0]
		links = links[1:]
		kind, ok := b.kindOf(next.to)
		if !ok || slices.Contains(kinds, kind) || kind == "messages/*" && next.from != "messages" {
			continue // a message that another page names may be done
		}
		kinds = append(kinds, kind)
		b.at = next.to
		inTab(b, chromedp.Navigate(next.to))
		inTab(b, chromedp.Evaluate[bool](settled, chromedp.EvalAwaitPromise))
		for _, to := range inTab(b, chromedp.Evaluate[[]string](
			`[...document.querySelectorAll('a[href]')].filter(a => !a.hasAttribute('download'))
				.map(a => new URL(a.getAttribute('href'), location).href)`)) {
			links = append(links, link{kind, to})
		}
		b.lookAt(kind)
	}
	return kinds
}

// kindOf is the kind of page that a link leads to.
func (b *browser) kindOf(link string) (kind string, ok bool) {
	path, ok := strings.CutPrefix(link, b.base)
	path, _, _ = strings.Cut(path, "#")
	path, _, _ = strings.Cut(path, "?")
	if !ok || strings.HasSuffix(path, "/export") || strings.HasSuffix(path, "/body") || strings.HasPrefix(path, "@") {
		return "", false
	}
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts); i++ {
		if path != "dead/group" && path != "pipelines/convert" {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/"), true
}

// lookAt looks at the page that is open, in each way.
func (b *browser) lookAt(kind string) {
	b.Helper()
	for i, l := range looks {
		command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: l.width, Height: l.height,
			DeviceScaleFactor: 1, Mobile: l.width < 500})
		command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: l.theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		overflow := inTab(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - innerWidth`))
		if overflow > 0 {
			b.Errorf("page %q is %d px wider than %d", kind, overflow, l.width)
		}
		if i == 0 && b.lang == "en" || i == len(looks)-1 { // each theme, each size, each language
			b.judge(kind, l)
		}
	}
	for _, complaint := range b.complaints() {
		b.Errorf("page %q: %s", kind, complaint)
	}
}

// judge lets axe look at the page.
func (b *browser) judge(kind string, l look) {
	b.Helper()
	found := inTab(b, chromedp.Evaluate[[]string](b.axe+`;
		axe.run(document, {resultTypes: ['violations']}).then(r => r.violations
			.filter(v => v.impact == 'serious' || v.impact == 'critical')
			.map(v => v.id + ': ' + v.help + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(' ')))`,
		chromedp.EvalAwaitPromise))
	for _, problem := range found {
		b.Errorf("page %q (%d px, %s): %s", kind, l.width, l.theme, problem)
	}
}

// drawn reports, after a second, whether the charts of the page have figures.
const drawn = `new Promise(done => setTimeout(() => done([...document.querySelectorAll('[data-chart]')]
	.some(c => JSON.parse(c.dataset.chart).data[0].length > 5)), 1000))`

// picture writes a picture of a page for the documents.
func (b *browser) picture(path, name string) {
	b.Helper()
	b.at = path
	height := int64(800)
	if path == "" { // with its charts
		height = 1080
	}
	command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: height,
		DeviceScaleFactor: 1})
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: "light"}}})
	charts := path == "" || strings.HasPrefix(path, "topics/")
	for end := time.Now().Add(2 * time.Minute); ; {
		inTab(b, chromedp.Navigate(b.base+path))
		inTab(b, chromedp.Evaluate[bool](settled, chromedp.EvalAwaitPromise))
		if !charts || inTab(b, chromedp.Evaluate[bool](drawn, chromedp.EvalAwaitPromise)) || time.Now().After(end) {
			break
		}
	}
	png := inTab(b, chromedp.CaptureScreenshot())
	if err := os.WriteFile(filepath.Join("../docs/console", name+".png"), png, 0o600); err != nil {
		b.Fatal(err)
	}
}
