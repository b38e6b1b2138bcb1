package observe

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawl-dev/pawl"
)

// NewRegistry returns a registry with the metrics of the Go runtime and of the
// process.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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

	storeCalls, storeItems, claimed, settled, givenBack, refused, decisions, degraded, failures,
	wentBack *prometheus.CounterVec
	running, slots, zombies, local, depth, depthAt, oldest, reloadOK, reloadAt, topKey *prometheus.GaugeVec
	storeTime, queueWait, attemptTime, deliveryTime                                    *histogram
	events                                                                             eventMetrics
	paused                                                                             *prometheus.GaugeVec
	ready                                                                              readiness
	failing                                                                            storeFailing
	limits                                                                             limitMetrics
	slow                                                                               *slowKeys
	kafka                                                                              *kafkaMetrics
	spill                                                                              *spillMetrics
}

// New registers the metrics of the runtime with reg.
func New(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		bounds:     bounds{known: map[string]map[string]bool{}, overflow: counter(overflow)},
		storeCalls: counter(storeCalls), storeItems: counter(storeItems), claimed: counter(claimed),
		settled: counter(settled), givenBack: counter(givenBack), refused: counter(refused),
		decisions: counter(decisions),
		running:   gauge(running), slots: gauge(slots), zombies: gauge(zombies), local: gauge(local),
		depth: gauge(depth), depthAt: gauge(depthAt), oldest: gauge(oldest), paused: gauge(paused),
		reloadOK: gauge(reloadOK), reloadAt: gauge(reloadAt),
		storeTime: newHistogram(storeTime, quickBuckets), queueWait: newHistogram(queueWait, waitBuckets),
		attemptTime: newHistogram(attemptTime, workBuckets), deliveryTime: newHistogram(deliveryTime, waitBuckets),
		degraded: counter(degraded), failures: counter(failures), wentBack: counter(wentBack), topKey: gauge(topKey),
		events: newEventMetrics(), limits: newLimitMetrics(), slow: newSlowKeys(),
	}
	m.wentBack.WithLabelValues() // 0 from the start
	m.kafka, m.spill = newKafkaMetrics(&m.bounds), newSpillMetrics()
	for _, c := range append(m.spill.all(),
		m.bounds.overflow, m.storeCalls, m.storeItems, m.claimed, m.settled, m.givenBack, m.refused, m.decisions,
		m.running, m.slots, m.zombies, m.local, m.depth, m.depthAt, m.oldest, m.reloadOK, m.reloadAt,
		m.limits.running, m.limits.rate, m.limits.window, m.limits.least, m.limits.heldBack,
		m.storeTime, m.queueWait, m.attemptTime, m.deliveryTime,
		m.degraded, m.failures, m.wentBack, m.topKey, m.events.emitted, m.events.dropped, m.events.refused,
		m.events.lag, m.kafka, m.slow, &m.ready, m.paused, &m.failing,
	) {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func counter(d description) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labels)
}

func gauge(d description) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.name, Help: d.help}, d.labels)
}

// StoreCall records a call of the store.
func (m *Metrics) StoreCall(op string, took time.Duration, items int, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	op = m.bounds.value(labelOp, op)
	m.storeCalls.WithLabelValues(op, result).Inc()
	m.storeItems.WithLabelValues(op).Add(float64(items))
	m.storeTime.observe(op, took)
	m.failing.note(err != nil)
}

// AskReady sets the check for readiness, which is called at every scrape.
func (m *Metrics) AskReady(ask func() bool) { m.ready.ask.Store(&ask) }

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

// Ran records handlers that ended.
func (m *Metrics) Ran(topic string, took []time.Duration) {
	m.attemptTime.observe(m.bounds.value(labelTopic, topic), took...)
}

// Settled records verdicts that the store accepted.
func (m *Metrics) Settled(topic, verdict string, deliveries int, done []time.Duration) {
	vs := m.bounds.values(settled, topic, verdict)
	m.settled.WithLabelValues(vs...).Add(float64(deliveries))
	m.deliveryTime.observe(vs[0], done...)
}

// GivenBack records deliveries that a handler gave back.
func (m *Metrics) GivenBack(topic string, deliveries int) {
	m.givenBack.WithLabelValues(m.bounds.value(labelTopic, topic)).Add(float64(deliveries))
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
