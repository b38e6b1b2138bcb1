//go:build unix

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// tasked is a daemon on which an operator has something to do.
const tasked = `listen: 127.0.0.1:0
api: { listen: "127.0.0.1:0" }
topics:
  mail: { handler: exec, retry: { attempts: 1 }, command: "case $(cat) in *invalid*) echo '550 no such mailbox' >&2; exit 1;;
          *full*) echo '452 mailbox is full' >&2; exit 1;; esac" }
  figures: { handler: exec, command: "cat >/dev/null; echo 'no space left' >&2; exit 1", retry: { attempts: 1 } }
  orders: { handler: exec, command: "cat >/dev/null", order: key }
  images: { handler: exec, command: "grep -q poison || exit 0; echo 'not a picture' >&2; exit 75", order: key,
            retry: { for: 1h, backoff: { base: 10m, max: 20m } } }
  reports: { handler: exec, command: "cat >/dev/null" }
schedules:
  nightly: { cron: "30 2 * * *", zone: Europe/Berlin, topic: reports, json: '{"report":"nightly"}' }
  totals: { every: 1s, topic: figures, json: '{"report":"totals"}' }
`

// Bounds of a task: a person may click so often, and take so long.
const (
	mostClicks = 8
	mostTime   = 2 * time.Minute
)

// person is an operator who reads, clicks and types.
type person struct {
	*browser
	clicks int
	began  time.Time
}

// place is where an element of a page is that a person would click on; empty: there is none, or something is before it.
// clickCame is then false until a click on it comes, which a page that changes just then may prevent.
const place = `(() => {
	const kinds = %q
	const styled = Array.from(document.querySelectorAll('link[rel=stylesheet]')).every(l => l.sheet)
	if (document.readyState === 'loading' || !styled) return [] // elements still move
	const same = e => [e.textContent, e.getAttribute('aria-label') || ''].some(t => t.replace(/\s+/g, ' ').trim().startsWith(%q))
	const inView = e => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); return r.width > 0 && r }
	for (const e of document.querySelectorAll(kinds)) {
		if (!same(e) || e.disabled) continue
		const r = inView(e)
		if (!r) continue
		const at = [r.x + Math.min(r.width / 2, 40), r.y + Math.min(r.height / 2, 10)]
		const hit = document.elementFromPoint(...at)
		if (!hit || !e.contains(hit) && !hit.contains(e)) continue
		window.clickCame = false
		document.addEventListener('click', click => {
			const got = click.target.closest(kinds)
			window.clickCame = got && same(got) || click.target === hit
		}, {once: true, capture: true})
		return at
	}
	return []
})()`

// click clicks on what begins with a text: a link, a button, or a field by its label.
func (p *person) click(text string) { p.Helper(); p.clickOn("a, button, summary, label", text) }

func (p *person) clickOn(kinds, text string) {
	p.Helper()
	for end := time.Now().Add(3 * patience); ; time.Sleep(100 * time.Millisecond) {
		at, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]float64](fmt.Sprintf(place, kinds, text)))
		if err == nil && len(at) == 2 { // an error: the page is being left
			inTab(p.browser, chromedp.MouseClickXY(at[0], at[1]))
			came, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`window.clickCame !== false`))
			if err != nil || came {
				p.clicks++
				return
			}
		}
		if time.Now().After(end) {
			p.Fatalf("nothing to click on says %q; the page:\n%s", text, p.reads())
		}
	}
}

// types writes into the field that has the focus, when one has it.
func (p *person) types(text string) {
	p.Helper()
	inTab(p.browser, chromedp.Evaluate[bool](`new Promise(done => {
		const look = () => document.activeElement.matches('input, textarea') ? done(true) : setTimeout(look, 20)
		look()
	})`, chromedp.EvalAwaitPromise))
	command(p.browser, input.InsertText, input.InsertTextParams{Text: text})
}

// presses presses a key, which writes a text unless the page does something else.
func (p *person) presses(key, text string) {
	p.Helper()
	command(p.browser, input.DispatchKeyEvent,
		input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: text})
	command(p.browser, input.DispatchKeyEvent,
		input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: key})
}

func (p *person) reads() string {
	p.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return "" // the page is being left
	}
	return text
}

// sees waits until all of some texts are on the page. A person needs no reload for that.
func (p *person) sees(texts ...string) {
	p.Helper()
	for end := time.Now().Add(backoffPatience); ; time.Sleep(200 * time.Millisecond) {
		page := p.reads()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(page, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			p.Fatalf("the page does not say %q:\n%s", missing, page)
		}
	}
}

// begins opens the overview. The clock runs.
func (p *person) begins() {
	p.Helper()
	inTab(p.browser, chromedp.Navigate(p.base))
	p.clicks, p.began = 0, time.Now()
}

// ends checks the bounds of the task.
func (p *person) ends(task string) {
	p.Helper()
	took := time.Since(p.began)
	p.Logf("%s: %d clicks, %.1f s", task, p.clicks, took.Seconds())
	if p.clicks > mostClicks || took > mostTime {
		p.Errorf("%s takes %d clicks and %v", task, p.clicks, took)
	}
	for _, complaint := range p.complaints() {
		p.Errorf("%s: %s", task, complaint)
	}
}

// TestTasksOfAnOperator carries out what operators do, by mouse and from the overview alone, and counts the clicks.
func TestTasksOfAnOperator(t *testing.T) {
	t.Parallel()
	in := newIncident(t, tasked)
	base := in.startConsole()
	in.must(`for i in 1 2 3 4 5 6; do echo "{\"key\":\"ann\",\"body\":\"{\\\"to\\\":\\\"ann@invalid\\\",\\\"n\\\":$i}\"}"; done |
			pawl send mail --jsonl -q
		echo '{"key":"bob","body":"{\"to\":\"bob@invalid\"}"}' | pawl send mail --jsonl -q
		echo '{"key":"ann","body":"{\"to\":\"ann@full\"}"}' | pawl send mail --jsonl -q
		pawl topics pause orders --reason "the warehouse counts" -q
		for i in poison beach; do echo "{\"id\":\"$i\",\"key\":\"holiday\",\"body\":\"$i\"}"; done | pawl send images --jsonl -q
		pawl schedules backfill nightly --since "$(date -u -d '25 hours ago' +%FT%TZ)" --until "$(date -u +%FT%TZ)" --yes -q`)
	in.until("pawl dead ls --topic mail -o jsonl | wc -l", "8")
	in.until("pawl schedules ls -o jsonl | grep totals", `…"last_outcome":"dead"…`)
	in.must("pawl schedules pause totals -q")
	p := &person{browser: newBrowser(t, base, "en")}
	command(p.browser, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: 1440, Height: 900, DeviceScaleFactor: 1})

	p.replays(in)
	p.resumes(in)
	p.unblocks(in)
	p.stops(in)
	p.looksUp(in)
	p.findsFailed()
	p.drains(in)
}

// replays replays the mails of one customer with a corrected field, at 5 a second.
func (p *person) replays(in *incident) {
	p.Helper()
	p.begins()
	p.sees("mail: 8 died in the last hour")
	p.click("mail: 8 died")
	p.sees("452 mailbox is full")
	p.click("550 no such mailbox")
	p.click("ann")
	p.sees("Count", "6", "ann@invalid")
	p.click("Replay …")
	p.types("5")
	p.click("Edit each body, in jq")
	p.types(`.to = "ann@example.com"`)
	p.click("Reason")
	p.types("ann has moved")
	p.click("Show the plan")
	p.sees("Before", "ann@invalid", "After", "ann@example.com", "5; about")
	p.click("Carry it out: 6")
	p.sees("Done", "6 / 6", "5/s", "Nothing of it has died again so far.")
	p.ends("replay the mails of a customer with a corrected field")
	in.until("pawl dead ls --topic mail -o jsonl | wc -l", "2")
}

// resumes finds who paused a topic, and resumes it.
func (p *person) resumes(in *incident) {
	p.Helper()
	p.begins()
	p.sees("orders: paused by")
	p.click("orders: paused by")
	p.sees("the warehouse counts", "paused by")
	p.click("Resume")
	p.types("the count is done")
	p.clickOn("form button", "Resume")
	p.sees("Done: topics resume")
	p.ends("find who paused a topic, and resume it")
	in.until("pawl audit ls -o jsonl", `…"topics resume"…the count is done…`)
}

// unblocks finds what blocks a key.
func (p *person) unblocks(_ *incident) {
	p.Helper()
	p.begins()
	p.presses("/", "/")
	p.types("holiday")
	p.presses("Enter", "\r")
	p.sees("poison")
	p.click("beach")
	p.sees("Blocked by", "1 before it in its lane")
	p.click("poison")
	p.sees("not a picture", "Attempt 1", "retry")
	p.ends("find what blocks a key")
}

// stops stops a poison message.
func (p *person) stops(in *incident) {
	p.Helper()
	p.begins()
	p.click("images")
	p.clickOn("main a", "delayed: 1")
	p.click("poison")
	p.sees("not a picture")
	p.click("Cancel")
	p.types("it is no picture")
	p.clickOn("form button", "Cancel")
	p.sees("Done: cancel", "images")
	p.ends("stop a poison message")
	in.until("pawl topics ls images -o json", `…"acked_total":1…`)
}

// looksUp looks up whether the report of last night ran.
func (p *person) looksUp(_ *incident) {
	p.Helper()
	p.begins()
	p.click("Schedules")
	p.click("nightly")
	p.sees("at 02:30", "backfill", "done")
	p.ends("see whether tonight's report ran")
}

// findsFailed finds out why a report that a schedule asked for was not made.
func (p *person) findsFailed() {
	p.Helper()
	p.begins()
	p.click("totals: the message of its last tick is a dead letter")
	p.sees("every 1s", "dead")
	p.clickOn("td[data-label=Message] a", "")
	p.sees("no space left")
	p.ends("find why a scheduled report failed")
}

// drains drains a worker.
func (p *person) drains(in *incident) {
	p.Helper()
	in.must("pawl work thumbs --exec cat >/dev/null 2>&1 & echo $! >work.pid")
	in.until("pawl workers ls -o jsonl | grep -c thumbs", "1")
	owner := strings.TrimSpace(in.must(`pawl workers ls -o jsonl | grep thumbs | sed -E 's/.*"owner":"[^"]*[/]([^"]*)".*/\1/'`))
	p.begins()
	p.clickOn("nav a", "Workers")
	p.clickOn(fmt.Sprintf("details:has(form[action*='%s']) > summary", owner), "Drain")
	p.types("a new machine takes over")
	p.click("Type drain to go on.")
	p.types("drain")
	p.clickOn("form button", "Drain")
	p.sees("Done: ")
	p.ends("drain a worker")
	in.until("kill -0 $(cat work.pid) 2>/dev/null || echo gone", "gone")
	in.until("pawl audit ls -o jsonl", `…"workers drain"…a new machine takes over…`)
}
