package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/internal/operate"
)

func topicPages() []page {
	return []page{
		{path: "/topics", file: "topics", nav: "Topics", key: "t", show: func(v *view) (any, error) { return v.topics() }},
		{path: "/topics/{topic}", file: "topic", show: topicPage},
	}
}

// topicRow is a topic with how fast it goes.
type topicRow struct {
	operate.Topic
	rates
	Wait  wait
	Spark string // the points of a small chart of what waited in the last hour
}

func (sum *topicRow) add(r *topicRow) {
	sum.Waiting, sum.Delayed, sum.Leased = sum.Waiting+r.Waiting, sum.Delayed+r.Delayed, sum.Leased+r.Leased
	sum.Dead, sum.NewDead = sum.Dead+r.Dead, sum.NewDead+r.NewDead
	sum.Acked, sum.Failed, sum.Appended = sum.Acked+r.Acked, sum.Failed+r.Failed, sum.Appended+r.Appended
	if r.OldestWaitingSeconds != nil {
		*sum.OldestWaitingSeconds = max(*sum.OldestWaitingSeconds, *r.OldestWaitingSeconds)
	}
}

type topicsData struct{ Rows []topicRow }

// topics are those that the person may see, with their figures.
func (v *view) topics() (d topicsData, err error) {
	var all []operate.Topic
	if _, err = v.cached(&all, url.Values{"limit": {"1000"}}, "/topics"); err != nil {
		return d, err
	}
	for i := range all {
		past := v.site.figures.of(all[i].Topic, false)
		d.Rows = append(d.Rows, topicRow{Topic: all[i], rates: ratesOf(past), Spark: spark(past),
			Wait: v.site.figures.waitOf(all[i].Topic)})
	}
	return d, nil
}

// topicNames are those of the topics that the person may see.
func (v *view) topicNames() (names []string) {
	d, err := v.topics()
	if err != nil {
		return nil // the page itself says why
	}
	for i := range d.Rows {
		names = append(names, d.Rows[i].Topic.Topic)
	}
	return names
}

// spark are the points of a chart of 100 by 20.
func spark(past []sample) string {
	var most int64 = 1
	for i := range past {
		most = max(most, past[i].Waiting)
	}
	var points strings.Builder
	step := max(len(past)/50, 1)
	for i := 0; i < len(past); i += step {
		fmt.Fprintf(&points, "%.1f,%.1f ", 100*float64(i)/float64(max(len(past)-1, 1)),
			19-18*float64(past[i].Waiting)/float64(most))
	}
	return points.String()
}

type topicData struct {
	topicRow
	Rate, Age, Depth string // charts
	Keys             []tally
	Looked           int
	Next             []operate.Message
	Workers          []servant
	Attention        []finding
}

// servant is a worker of a topic.
type servant struct {
	Owner string
	roster.Topic
}

// inLine is how many messages are looked at for the keys that many of them have.
const inLine = 500

func topicPage(v *view) (any, error) {
	name := v.r.PathValue("topic")
	var d topicData
	if _, err := v.cached(&d.Topic, nil, fill("/topics/%s", name)); err != nil {
		return nil, err
	}
	past := v.site.figures.of(name, v.Query("span") == "day")
	d.rates = ratesOf(v.site.figures.of(name, false))
	d.Wait = v.site.figures.waitOf(name)
	d.Rate, d.Age, d.Depth = rateChart(v, past), ageChart(v, past), depthChart(v, past)
	var line []operate.Message
	q := url.Values{"limit": {strconv.Itoa(inLine)}}
	if _, err := v.cached(&line, q, fill("/topics/%s/peek", name)); err == nil { // some stores cannot tell
		keys := map[string]int{}
		for i := range line {
			if line[i].Key != nil {
				keys[*line[i].Key]++
			}
		}
		d.Keys, d.Looked, d.Next = tallies(keys), len(line), line[:min(len(line), 10)]
	}
	workers := workersOf(v)
	d.Workers = servants(workers, name)
	for _, f := range v.withDoctor(v.attention([]topicRow{d.topicRow}, workers), name) {
		if f.Link == v.URL("/topics/%s", name) { // it is here
			f.Link = ""
		}
		if f.Runbook != "PawlTopicPaused" { // the page says that by itself
			d.Attention = append(d.Attention, f)
		}
	}
	return d, nil
}

// workersOf are those of the store. Somebody who is for some topics only does not see them.
func workersOf(v *view) (workers []operate.Worker) {
	if _, err := v.cached(&workers, nil, "/workers"); err != nil {
		return nil
	}
	return workers
}

// servants are the workers of topics.
func servants(workers []operate.Worker, topics ...string) (all []servant) {
	for i := range workers {
		if workers[i].Registration == nil {
			continue
		}
		for _, t := range workers[i].Topics {
			if slices.Contains(topics, t.Topic) {
				all = append(all, servant{workers[i].Owner, t})
			}
		}
	}
	return all
}

// limitNow is what a limit lets through now; empty while it lets everything through.
func limitNow(v *view, l roster.Limit) string {
	var all []string
	if l.PerSecond > 0 {
		all = append(all, fmt.Sprintf("%.3g/s", l.PerSecond))
	}
	if l.Concurrency > 0 {
		all = append(all, v.T("%d at once", l.Concurrency))
	}
	if l.Window > 0 && l.Window < noWindow {
		all = append(all, v.T("window %.1f", l.Window))
	}
	if l.HeldBack > 0 {
		all = append(all, v.T("%d held back", l.HeldBack))
	}
	if len(all) == 0 {
		return ""
	}
	if l.Shared {
		all = append(all, v.T("shared"))
	}
	if l.ByKey {
		all = append(all, v.T("by key"))
	}
	return l.Limit + ": " + strings.Join(all, ", ")
}

// noWindow is from which window on a limit holds nothing back.
const noWindow = 1e6

// chart is what the browser draws: times in seconds, and a line for each name.
type chart struct {
	Names []string     `json:"names"`
	Data  [][]*float64 `json:"data"`
}

// chartOf makes a chart of samples; each line is a function of a sample and the one before.
func chartOf(past []sample, names []string, lines ...func(s, before *sample) *float64) string {
	if len(past) < 3 {
		return ""
	}
	c := chart{Names: names, Data: make([][]*float64, len(lines)+1)}
	for i := 1; i < len(past); i++ {
		c.Data[0] = append(c.Data[0], new(float64(past[i].At.Unix())))
		for n, line := range lines {
			c.Data[n+1] = append(c.Data[n+1], line(&past[i], &past[i-1]))
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "" // it is numbers
	}
	return string(text)
}

// perSecond is how much a total grew; not after it was set back.
func perSecond(total func(*sample) int64) func(s, before *sample) *float64 {
	return func(s, before *sample) *float64 {
		grown, seconds := total(s)-total(before), s.At.Sub(before.At).Seconds()
		if grown < 0 || seconds <= 0 {
			return nil
		}
		return new(float64(grown) / seconds)
	}
}

func level(of func(*sample) float64) func(s, _ *sample) *float64 {
	return func(s, _ *sample) *float64 { return new(of(s)) }
}

func rateChart(v *view, past []sample) string {
	return chartOf(past, []string{v.T("done/s"), v.T("failed/s"), v.T("appended/s")},
		perSecond(func(s *sample) int64 { return s.Acked }),
		perSecond(func(s *sample) int64 { return s.Retried + s.Dead }),
		perSecond(func(s *sample) int64 { return s.Appended }))
}

func ageChart(v *view, past []sample) string {
	return chartOf(past, []string{v.T("oldest, s")}, level(func(s *sample) float64 { return s.Oldest }))
}

func depthChart(v *view, past []sample) string {
	return chartOf(past, []string{v.T("waiting"), v.T("dead"), v.T("leased")},
		level(func(s *sample) float64 { return float64(s.Waiting) }),
		level(func(s *sample) float64 { return float64(s.Dead) }),
		level(func(s *sample) float64 { return float64(s.Leased) }))
}
