package console

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func overviewPages() []page {
	return []page{{path: "/", file: "overview", nav: "Overview", key: "o", show: overview}}
}

type overviewData struct {
	topicsData
	Sum              topicRow
	Alive, Workers   int
	Running, Slots   int
	Attention        []finding
	Throughput, Ages string // charts
}

// finding is what needs attention, with the page of the runbook about it.
type finding struct {
	Bad           bool
	Topic         string // empty: it is about no topic
	What, Runbook string
	Link          string
}

// oldAge is from which age of the oldest message on the alert of the runbook fires.
const oldAge = 300

func overview(v *view) (any, error) {
	var d overviewData
	var err error
	if d.topicsData, err = v.topics(); err != nil {
		return nil, err
	}
	d.Sum.rates.Acked, d.Sum.OldestWaitingSeconds = 0, new(float64)
	names := make([]string, 0, len(d.Rows))
	for i := range d.Rows {
		d.Sum.add(&d.Rows[i])
		names = append(names, d.Rows[i].Topic.Topic)
	}
	d.Sum.Wait = v.site.figures.waitOf(names...)
	workers := workersOf(v)
	d.count(workers)
	d.Attention = v.withDoctor(append(v.attention(d.Rows, workers), lateSchedules(v)...), "")
	past := v.site.figures.sum(names, v.Query("span") == "day")
	d.Throughput = rateChart(v, past)
	d.Ages = ageChart(v, past)
	return d, nil
}

// withDoctor adds what the doctor found, of one topic or of all, and begins with what is bad.
func (v *view) withDoctor(all []finding, topic string) []finding {
	for _, f := range v.site.checkup.found(v) {
		seen := func(a finding) bool { return a.Topic == f.Topic && a.Runbook == f.Runbook && f.Runbook != "" }
		if (topic == "" || f.Topic == topic) && !slices.ContainsFunc(all, seen) {
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(b2i(b.Bad), b2i(a.Bad)) })
	return all
}

func (d *overviewData) count(workers []operate.Worker) {
	d.Workers = len(workers)
	for i := range workers {
		if workers[i].Alive != nil && *workers[i].Alive {
			d.Alive++
		}
		if workers[i].Registration != nil {
			for _, t := range workers[i].Topics {
				d.Running, d.Slots = d.Running+t.Running, d.Slots+t.Concurrency
			}
		}
	}
}

// attention are the states of topics about which somebody should know.
func (v *view) attention(rows []topicRow, workers []operate.Worker) (all []finding) {
	served, results, limits := map[string]bool{}, map[string]bool{}, map[string]string{}
	for i := range workers {
		if workers[i].Registration != nil && workers[i].Alive != nil && *workers[i].Alive {
			for _, t := range workers[i].Topics {
				served[t.Topic] = true
				results[t.Topic] = results[t.Topic] || t.ReadWhole
				limits[t.Topic] = cmp.Or(t.LimitedBy, limits[t.Topic])
			}
		}
	}
	for i := range rows {
		r := &rows[i]
		name, link := r.Topic.Topic, v.URL("/topics/%s", r.Topic.Topic)
		if results[name] { // nobody is to work on them
			continue
		}
		add := func(bad bool, runbook, what string, args ...any) {
			all = append(all, finding{Bad: bad, Topic: name, What: name + ": " + v.T(what, args...), Runbook: runbook,
				Link: link})
		}
		if r.Pause != nil {
			add(false, "PawlTopicPaused", "paused by %s since %s", r.Pause.By, utc(r.Pause.Since))
		}
		if r.Full {
			add(true, "PawlBacklogOld", "full: appends are refused")
		}
		if r.Stuck > 0 {
			add(true, "PawlHandlersLate", "%d handlers are beyond their deadline", r.Stuck)
		}
		if r.Pause == nil && r.OldestWaitingSeconds != nil && *r.OldestWaitingSeconds > oldAge {
			add(true, "PawlBacklogOld", "the oldest message waits for %s", span(*r.OldestWaitingSeconds))
		}
		if r.Waiting > 0 && len(workers) > 0 && !served[name] {
			add(true, "PawlTopicUnserved", "%s wait, and no worker serves it", num(r.Waiting))
		}
		if limit := limits[name]; limit != "" && r.Waiting > 0 && r.Leased == 0 &&
			(r.LastAckAt == nil || v.Now.Sub(*r.LastAckAt) > lateFor) {
			add(false, "PawlTopicStalled", "%s wait, held back by the limit %s", num(r.Waiting), limit)
		}
		if r.NewDead > 0 {
			add(true, "PawlDeadLetters", "%s died in the last hour", num(r.NewDead))
			all[len(all)-1].Link = v.URL("/dead") + "?" + url.Values{"topic": {name}, "since": {"1h"}}.Encode()
		}
	}
	return all
}

// lateFor is how late a tick may be, and how long a limit may let nothing through, before somebody should know.
const lateFor = 30 * time.Second

// lateSchedules are those with a tick that is overdue for long, or whose last message died.
func lateSchedules(v *view) (all []finding) {
	var known []operate.Schedule
	if _, err := v.cached(&known, url.Values{"limit": {"1000"}}, "/schedules"); err != nil {
		return nil // the store has none, or this person may not see them
	}
	for i := range known {
		s := &known[i]
		if s.Overdue > lateFor.Seconds() {
			all = append(all, finding{Bad: true, What: s.Name + ": " + v.T("a tick is overdue for %s", span(s.Overdue)),
				Runbook: "PawlScheduleStandsStill", Link: v.URL("/schedules/%s", s.Name)})
		}
		if s.LastOutcome == string(store.IsDead) {
			all = append(all, finding{Bad: true, What: s.Name + ": " + v.T("the message of its last tick is a dead letter"),
				Runbook: "PawlDeadLetters", Link: v.URL("/schedules/%s", s.Name)})
		}
	}
	return all
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkup has what the doctor found last. It is asked beside the pages while somebody looks, each minute, or so seldom
// that it takes at most a hundredth of the time.
type checkup struct {
	mu      sync.Mutex
	next    time.Time
	verdict []diagnosis
}

// found are the findings of the doctor, for somebody who may see all; none before the first ones are there.
func (c *checkup) found(v *view) (all []finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().After(c.next) {
		c.next = time.Now().Add(time.Minute)
		v.k.wg.Go(func() { c.ask(v) })
	}
	if !v.Whole() {
		return nil
	}
	for _, f := range c.verdict {
		link := cmp.Or(f.Link(v), v.URL("/doctor"))
		all = append(all, finding{Bad: f.Verdict == "fail", Topic: strings.TrimPrefix(f.Check, "topic "),
			Runbook: f.Runbook, Link: link,
			What: f.Check + ": " + v.Sentence(f.Detail) + operate.Because(v.Sentence(f.Fix))})
	}
	return all
}

func (c *checkup) ask(v *view) {
	began := time.Now()
	_, text, err := v.site.api.Call(v.k.ctx, everything(), http.MethodGet, "/v1/doctor", nil)
	var findings []diagnosis
	if err != nil || json.Unmarshal(text, &findings) != nil {
		return // this program has no doctor
	}
	findings = slices.DeleteFunc(findings, func(f diagnosis) bool { return f.Verdict != "warn" && f.Verdict != "fail" })
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.verdict, findings) {
		v.site.figures.mu.Lock()
		defer v.site.figures.mu.Unlock()
		v.site.figures.tell()
	}
	c.verdict, c.next = findings, time.Now().Add(max(time.Since(began)*memoFactor, time.Minute))
}
