package observe

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtime "github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawl-dev/pawl"
)

// NewRegistry returns a registry with the metrics of the Go runtime and of the
// process.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(runtime.NewGoCollector(), runtime.NewProcessCollector(runtime.ProcessCollectorOpts{}))
	return reg
}

// Handler serves what is gathered from g, for a scrape.
func Handler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Metrics are the metrics of the runtime. It is an observer of package
// dispatch. Its methods are safe for concurrent use; none blocks.
type Metrics struct {
	bounds bounds
	grown  growth

	storeCalls, storeItems, claimed, settled, late, givenBack, refused, decisions, degraded, failures, retriedOften,
	wentBack, eventsEmitted, eventsDropped, eventsRefused *prometheus.CounterVec
	running, slots, zombies, local, depth, depthAt, oldest, reloadOK, reloadAt, topKey, paused *prometheus.GaugeVec
	storeTime, queueWait, attemptTime, deliveryTime                                            *histogram

	limits limitMetrics
	spill  spillMetrics
	kafka  *kafkaMetrics
	slow   *slowKeys

	eventsLag sync.Map                    // how many events wait, func() float64, by the consumer's name
	askReady  atomic.Pointer[func() bool] // nil: not ready
	objective atomic.Pointer[func(topic string) time.Duration]
	failing   atomic.Pointer[time.Time] // the first failure of the store behind the last success; nil: it succeeds
}

// New registers the metrics of the runtime with reg.
func New(reg prometheus.Registerer) (*Metrics, error) {
	c := collectors{}
	m := &Metrics{
		bounds:     bounds{known: map[string]map[string]bool{}, overflow: c.counter(overflow)},
		storeCalls: c.counter(storeCalls), storeItems: c.counter(storeItems), claimed: c.counter(claimed),
		settled: c.counter(settled), late: c.counter(slow), givenBack: c.counter(givenBack), refused: c.counter(refused),
		decisions: c.counter(decisions), degraded: c.counter(degraded), failures: c.counter(failures),
		retriedOften: c.counter(retriedOften), wentBack: c.counter(wentBack), eventsEmitted: c.counter(events),
		eventsDropped: c.counter(eventsDropped),
		eventsRefused: c.counter(eventsRefused),
		running:       c.gauge(running), slots: c.gauge(slots), zombies: c.gauge(zombies), local: c.gauge(local),
		depth: c.gauge(depth), depthAt: c.gauge(depthAt), oldest: c.gauge(oldest), paused: c.gauge(paused),
		reloadOK: c.gauge(reloadOK), reloadAt: c.gauge(reloadAt), topKey: c.gauge(topKey),
		storeTime: c.histogram(storeTime, quickBuckets), queueWait: c.histogram(queueWait, waitBuckets),
		attemptTime: c.histogram(attemptTime, workBuckets), deliveryTime: c.histogram(deliveryTime, waitBuckets),
		limits: newLimitMetrics(&c), spill: newSpillMetrics(&c), slow: newSlowKeys(),
	}
	m.kafka = newKafkaMetrics(&m.bounds)
	m.wentBack.WithLabelValues() // 0 from the start
	c.scraped(ready, func(set setter) {
		ask := m.askReady.Load()
		set(one(ask != nil && (*ask)()))
	})
	c.scraped(failing, func(set setter) {
		lasting := 0.0
		if since := m.failing.Load(); since != nil { // calls become rare in an outage, and each of them takes long
			lasting = time.Since(*since).Seconds()
		}
		set(lasting)
	})
	c.scraped(eventsLag, func(set setter) {
		for consumer, lag := range m.eventsLag.Range {
			set(lag.(func() float64)(), consumer.(string)) //nolint:forcetypeassert // nothing else is put there
		}
	})
	c.scraped(slowestKey, func(set setter) {
		for _, k := range m.SlowKeys() {
			set(k.P99.Seconds(), k.Topic)
		}
	})
	for _, metric := range append(c, m.kafka) {
		if err := reg.Register(metric); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// StoreCall records a call of the store.
func (m *Metrics) StoreCall(op string, took time.Duration, items int, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	op = m.bounds.value(labelOp, op)
	m.storeCalls.WithLabelValues(op, result).Inc()
	m.storeCalls.WithLabelValues(op, "error").Add(0) // the share that fails is known before one does
	m.storeItems.WithLabelValues(op).Add(float64(items))
	m.storeTime.observe(op, took)
	if err == nil {
		m.failing.Store(nil)
	} else if m.failing.Load() == nil {
		m.failing.CompareAndSwap(nil, new(time.Now()))
	}
}

// AskReady sets the check for readiness, which is called at every scrape.
func (m *Metrics) AskReady(ask func() bool) { m.askReady.Store(&ask) }

// Paused records whether a topic is paused.
func (m *Metrics) Paused(topic string, paused bool) {
	m.paused.WithLabelValues(m.bounds.value(labelTopic, topic)).Set(one(paused))
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Claimed records claimed deliveries.
func (m *Metrics) Claimed(topic string, deliveries int, waited []time.Duration) {
	topic = m.bounds.value(labelTopic, topic)
	m.claimed.WithLabelValues(topic).Add(float64(deliveries))
	m.queueWait.observe(topic, waited...)
}

// Waits are how many deliveries of each topic have waited for how long, by upper bounds in seconds; the last count is
// of what is above all of them.
func (m *Metrics) Waits() (bounds []float64, counts map[string][]uint64) {
	return waitBuckets, m.queueWait.counted()
}

// Ran records handlers that ended.
func (m *Metrics) Ran(topic string, took []time.Duration) {
	m.attemptTime.observe(m.bounds.value(labelTopic, topic), took...)
}

// Settled records verdicts that the store accepted.
func (m *Metrics) Settled(topic, verdict string, deliveries int, done []time.Duration) {
	vs := m.bounds.values(settled, topic, verdict)
	m.settled.WithLabelValues(vs...).Add(float64(deliveries))
	m.deliveryTime.observe(vs[0], done...)
	if of := m.objective.Load(); of != nil && (*of)(topic) > 0 {
		n := 0
		for _, took := range done {
			if took > (*of)(topic) {
				n++
			}
		}
		m.late.WithLabelValues(vs[0]).Add(float64(n))
	}
}

// Objectives sets how long messages should take, by topic; 0 is as long as they like.
func (m *Metrics) Objectives(of func(topic string) time.Duration) { m.objective.Store(&of) }

// GivenBack records deliveries that a handler gave back.
func (m *Metrics) GivenBack(topic string, deliveries int) {
	m.givenBack.WithLabelValues(m.bounds.value(labelTopic, topic)).Add(float64(deliveries))
}

// RetriedOften records a retry of a delivery that has failed often.
func (m *Metrics) RetriedOften(topic string) {
	m.retriedOften.WithLabelValues(m.bounds.value(labelTopic, topic)).Inc()
}

// Refused records verdicts that changed nothing.
func (m *Metrics) Refused(topic, reason string, deliveries int) {
	m.refused.WithLabelValues(m.bounds.values(refused, topic, reason)...).Add(float64(deliveries))
}

// Decided records a decision about a failure. The rule is in the attempt's record; as
// labels, it and the topic would multiply the series.
func (m *Metrics) Decided(topic, domain, typ, phase string, kind pawl.Kind, _, action, alert, degrade string) {
	if action == "ignore" {
		m.degraded.WithLabelValues(m.bounds.values(degraded, topic, degrade)...).Inc()
	}
	if topic != "" {
		m.failures.WithLabelValues(m.bounds.values(failures, topic, string(kind))...).Inc()
	}
	m.decisions.WithLabelValues(m.bounds.values(decisions, domain, typ, phase, string(kind), action, alert)...).Inc()
}

// Load records how full a topic is in this process.
func (m *Metrics) Load(topic string, running, waiting, zombies, slots int) {
	topic = m.bounds.value(labelTopic, topic)
	m.running.WithLabelValues(topic).Set(float64(running))
	m.local.WithLabelValues(topic).Set(float64(waiting))
	m.zombies.WithLabelValues(topic).Set(float64(zombies))
	m.slots.WithLabelValues(topic).Set(float64(slots))
}

// Depth records the figures of a topic in the store. They are counted periodically,
// never for a scrape.
func (m *Metrics) Depth(topic string, waiting, delayed, leased, dead int64, oldestWaiting time.Duration) {
	topic = m.bounds.value(labelTopic, topic)
	for state, n := range map[string]int64{"waiting": waiting, "delayed": delayed, "leased": leased, "dead": dead} {
		m.depth.WithLabelValues(topic, state).Set(float64(n))
	}
	m.oldest.WithLabelValues(topic).Set(oldestWaiting.Seconds())
}

// TopKey records the share that one key has of the first waiting messages of a topic.
func (m *Metrics) TopKey(topic string, share float64) {
	m.topKey.WithLabelValues(m.bounds.value(labelTopic, topic)).Set(share)
}

// StoreWentBack records that the store is an older copy of itself.
func (m *Metrics) StoreWentBack() { m.wentBack.WithLabelValues().Inc() }

// DepthCounted records when a topic was counted.
func (m *Metrics) DepthCounted(topic string, at time.Time) {
	m.depthAt.WithLabelValues(m.bounds.value(labelTopic, topic)).Set(seconds(at))
}

// DepthUnknown withdraws the figures of [Metrics.Depth]: counting fails, and old
// figures must not be mistaken for current ones.
func (m *Metrics) DepthUnknown() {
	m.depth.Reset()
	m.oldest.Reset()
	m.paused.Reset()
	m.topKey.Reset()
}

func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

// Reloaded records whether a configuration came into effect.
func (m *Metrics) Reloaded(ok bool, at time.Time) {
	if !ok {
		m.reloadOK.WithLabelValues().Set(0)
		return
	}
	m.reloadOK.WithLabelValues().Set(1)
	m.reloadAt.WithLabelValues().Set(seconds(at))
}

// Consume counts an event: m is a [Consumer].
func (m *Metrics) Consume(e Envelope) error {
	m.eventsEmitted.WithLabelValues(m.bounds.values(events, e.Domain, e.Type, e.Phase)...).Inc()
	return nil
}

// EventDropped counts an event that a consumer did not get.
func (m *Metrics) EventDropped(consumer, reason string) {
	m.eventsDropped.WithLabelValues(m.bounds.values(eventsDropped, consumer, reason)...).Inc()
}

// EventRefused counts an event that the bus refused.
func (m *Metrics) EventRefused(reason string) {
	m.eventsRefused.WithLabelValues(m.bounds.values(eventsRefused, reason)...).Inc()
}
