package observe

import (
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/observe/figures"
)

// The metrics of a Kafka store.
var (
	kafkaProduced = description{"pawl_kafka_produced_total",
		"Records that were to be stored, by result: stored by all in-sync replicas, refused, or unknown.",
		[]string{labelResult}}
	kafkaProduceTime = description{"pawl_kafka_produce_duration_seconds",
		"From handing a record to the client until the brokers answer, of stored records.", nil}
	kafkaBuffered = description{"pawl_kafka_buffered_records",
		"Records on their way to the brokers.", nil}
	kafkaBufferedBytes = description{"pawl_kafka_buffered_bytes",
		"Bytes of records on their way to the brokers.", nil}
	kafkaLeftAtFlush = description{"pawl_kafka_flush_left_records",
		"Records that were still on their way to the brokers when the store was closed and gave up waiting for them; 0 before. The error of the close names them, too.",
		nil}
	kafkaRequestFailures = description{"pawl_kafka_request_failures_total",
		"Requests that brokers did not answer, by what they were about: produce or other. They are repeated.",
		[]string{labelOp}}
	kafkaConsumed = description{"pawl_kafka_consumed_total",
		"Messages that were fetched and taken in, those that were fetched again included.", []string{labelTopic}}
	kafkaFailed = description{"pawl_kafka_processing_errors_total",
		"Attempts that failed, or whose lease ended unsettled.", []string{labelTopic, labelReason}}
	kafkaInHand = description{"pawl_kafka_unfinished_messages",
		"Messages that were taken in and are not finished.", []string{labelTopic, labelPartition}}
	kafkaLag = description{"pawl_kafka_lag",
		"Messages of a partition of this process that are not finished, in hand or not; the end of the log is that of the last fetch.",
		[]string{labelTopic, labelPartition}}
	kafkaLost = description{"pawl_kafka_lost_to_retention_total",
		"Messages that retention removed before they were finished, counted when the next one is fetched.",
		[]string{labelTopic, labelPartition}}
	kafkaBacklog = description{"pawl_kafka_commit_gate_backlog",
		"Messages that are finished behind one that is not: the committed offset stays before them.",
		[]string{labelTopic, labelPartition}}
	kafkaOldest = description{"pawl_kafka_oldest_unfinished_age_seconds",
		"How long ago the first message that was taken in and is not finished was appended; 0 if there is none.",
		[]string{labelTopic, labelPartition}}
	kafkaCommitLag = description{"pawl_kafka_commit_lag_seconds",
		"How long the oldest progress has been waiting to be committed.",
		[]string{labelTopic, labelPartition}}
	kafkaCommits = description{"pawl_kafka_commits_total",
		"Commits, by result: ok or failed.", []string{labelResult}}
	kafkaBare = description{"pawl_kafka_commits_bare_total",
		"Commits without what is finished behind the offset, because the brokers do not take as much metadata.", nil}
	kafkaRebalances = description{"pawl_kafka_rebalances_total",
		"Changes of the partitions of this process, by what the group did: assigned, revoked or lost.",
		[]string{labelAction}}
	kafkaOverlaps = description{"pawl_kafka_overlaps_total",
		"Handlers that were still running when their partition was gone.", nil}
	kafkaLateAcks = description{"pawl_kafka_late_acks_total",
		"Acks that changed nothing, because their partition was gone.", nil}
	kafkaDead = description{"pawl_kafka_dead_letters_total",
		"Dead letters that were written, by kind.", []string{labelTopic, labelKind}}
	kafkaLastDead = description{"pawl_kafka_last_dead_letter_timestamp_seconds",
		"When the last dead letter was written.", []string{labelTopic, labelKind}}
	kafkaDying = description{"pawl_kafka_dead_letters_waiting",
		"Dead letters that wait to be written; until then their keys are blocked.", []string{labelTopic}}
	kafkaDeadFailures = description{"pawl_kafka_dead_letter_failures_total",
		"Tries to write a dead letter that failed.", nil}
	kafkaTopKey = description{"pawl_kafka_dead_letters_top_key_ratio",
		"The share of the most frequent key among the dead letters of the last hour, at most the last 128.",
		[]string{labelTopic}}
	kafkaFaults = description{"pawl_kafka_faults",
		"Faults of the last minute, as the log and pawl kafka health name them.", nil}
)

var kafkaDescriptions = []description{
	kafkaProduced, kafkaProduceTime, kafkaBuffered, kafkaBufferedBytes, kafkaLeftAtFlush, kafkaRequestFailures,
	kafkaConsumed, kafkaFailed,
	kafkaInHand, kafkaLag, kafkaLost, kafkaBacklog, kafkaOldest, kafkaCommitLag, kafkaCommits, kafkaBare,
	kafkaRebalances, kafkaOverlaps, kafkaLateAcks,
	kafkaDead, kafkaLastDead, kafkaDying, kafkaDeadFailures, kafkaTopKey, kafkaFaults,
}

// kafkaMetrics reads the figures of a Kafka store when it is scraped. Without one it
// exports nothing.
type kafkaMetrics struct {
	bounds *bounds
	descs  map[string]*prometheus.Desc

	mu   sync.Mutex
	read func() figures.Kafka
}

func newKafkaMetrics(b *bounds) *kafkaMetrics {
	k := &kafkaMetrics{bounds: b, descs: map[string]*prometheus.Desc{}}
	for _, d := range kafkaDescriptions {
		k.descs[d.name] = d.desc()
	}
	return k
}

// WatchKafka exports the figures of a Kafka store. Read is called at every scrape,
// perhaps concurrently, and must not block. A second call replaces the first.
func (m *Metrics) WatchKafka(read func() figures.Kafka) {
	m.kafka.mu.Lock()
	defer m.kafka.mu.Unlock()
	m.kafka.read = read
}

// Describe implements prometheus.Collector.
func (k *kafkaMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range k.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (k *kafkaMetrics) Collect(ch chan<- prometheus.Metric) {
	k.mu.Lock()
	read := k.read
	k.mu.Unlock()
	if read == nil {
		return
	}
	f := read()
	s := samples{k: k, by: map[string]*sample{}}
	s.ofProcess(&f)
	s.ofTopics(&f)
	for _, one := range s.by {
		ch <- prometheus.MustNewConstMetric(k.descs[one.name], one.kind, one.value, one.labels...)
	}
	took, desc := f.Produced.Took, k.descs[kafkaProduceTime.name]
	send(ch, desc)((&series{took.Counts, took.Sum.Seconds()}).metric(desc, took.Bounds))
}

// sample is the value of a series.
type sample struct {
	name   string
	labels []string
	kind   prometheus.ValueType
	value  float64
}

// samples are those of one scrape. What comes under the same labels, because there are
// too many values of one, is one series.
type samples struct {
	k  *kafkaMetrics
	by map[string]*sample
}

// sum adds to a series.
func (s *samples) sum(d description, kind prometheus.ValueType, value float64, labels ...string) {
	s.of(d, kind, labels).value += value
}

// most raises a gauge.
func (s *samples) most(d description, value float64, labels ...string) {
	one := s.of(d, prometheus.GaugeValue, labels)
	one.value = max(one.value, value)
}

func (s *samples) of(d description, kind prometheus.ValueType, labels []string) *sample {
	labels = s.k.bounds.values(d, labels...)
	id := d.name + "\x00" + strings.Join(labels, "\x00")
	one := s.by[id]
	if one == nil {
		one = &sample{name: d.name, labels: labels, kind: kind}
		s.by[id] = one
	}
	return one
}

// ofProcess takes the figures that are of no topic.
func (s *samples) ofProcess(f *figures.Kafka) {
	const total, now = prometheus.CounterValue, prometheus.GaugeValue
	s.sum(kafkaProduced, total, float64(f.Produced.Stored), "stored")
	s.sum(kafkaProduced, total, float64(f.Produced.Refused), "refused")
	s.sum(kafkaProduced, total, float64(f.Produced.Unknown), "unknown")
	s.sum(kafkaBuffered, now, float64(f.Produced.Buffered))
	s.sum(kafkaBufferedBytes, now, float64(f.Produced.BufferedBytes))
	s.sum(kafkaLeftAtFlush, now, float64(f.Produced.LeftAtFlush))
	s.sum(kafkaRequestFailures, total, float64(f.Traffic.ProduceFailures), "produce")
	s.sum(kafkaRequestFailures, total, float64(f.Traffic.RequestFailures-min(f.Traffic.ProduceFailures,
		f.Traffic.RequestFailures)), "other")
	s.sum(kafkaCommits, total, float64(f.Commits.OK), "ok")
	s.sum(kafkaCommits, total, float64(f.Commits.Failed), "failed")
	s.sum(kafkaBare, total, float64(f.Commits.Bare))
	s.sum(kafkaRebalances, total, float64(f.Assigned), "assigned")
	s.sum(kafkaRebalances, total, float64(f.Revoked), "revoked")
	s.sum(kafkaRebalances, total, float64(f.Lost), "lost")
	s.sum(kafkaOverlaps, total, float64(f.Overlaps))
	s.sum(kafkaLateAcks, total, float64(f.LateAcks))
	s.sum(kafkaDeadFailures, total, float64(f.DeadFailures))
	s.sum(kafkaFaults, now, float64(f.Faults))
}

// ofTopics takes the figures of topics, partitions and dead letters.
func (s *samples) ofTopics(f *figures.Kafka) {
	const total, now = prometheus.CounterValue, prometheus.GaugeValue
	for _, t := range f.Topics {
		s.sum(kafkaConsumed, total, float64(t.Consumed), t.Topic)
		s.sum(kafkaFailed, total, float64(t.Failed), t.Topic, "failed")
		s.sum(kafkaFailed, total, float64(t.Rescued), t.Topic, "rescued")
		s.sum(kafkaDying, now, float64(t.Dying), t.Topic)
		s.most(kafkaTopKey, t.TopKeyShare, t.Topic)
	}
	for _, p := range f.Partitions {
		n := strconv.Itoa(int(p.Partition))
		s.sum(kafkaInHand, now, float64(p.InHand), p.Topic, n)
		s.sum(kafkaLag, now, float64(p.Lag), p.Topic, n)
		s.most(kafkaBacklog, float64(p.Backlog), p.Topic, n)
		s.most(kafkaOldest, p.OldestAge.Seconds(), p.Topic, n)
		s.most(kafkaCommitLag, p.CommitLag.Seconds(), p.Topic, n)
	}
	for _, r := range f.Retention {
		s.sum(kafkaLost, total, float64(r.Messages), r.Topic, strconv.Itoa(int(r.Partition)))
	}
	for _, d := range f.Dead {
		s.sum(kafkaDead, total, float64(d.Written), d.Topic, d.Kind)
		if !d.LastAt.IsZero() {
			s.most(kafkaLastDead, seconds(d.LastAt), d.Topic, d.Kind)
		}
	}
}
