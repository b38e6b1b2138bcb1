package open

import (
	"strings"

	"github.com/pawl-dev/pawl/observe/logs"
	"github.com/pawl-dev/pawl/store/kafka"
)

// LogTopic returns an output that produces log records to a topic of Kafka, one record each. The brokers are named by
// the URL of a store, or by HOST:PORT[,HOST:PORT…]; a broker that does not answer is no error.
func LogTopic(brokers, topic, compression string) (logs.Output, error) {
	if !strings.Contains(brokers, "://") {
		brokers = "kafka://" + brokers
	}
	c, err := kafkaConfig(brokers)
	if err != nil {
		return nil, err
	}
	if compression != "" {
		c.Produce.Compression = compression
	}
	lines, err := kafka.NewLines(c, topic)
	if err != nil {
		return nil, err
	}
	return logTopic{lines}, nil
}

type logTopic struct{ *kafka.Lines }

// Write implements logs.Output.
func (t logTopic) Write(b *logs.Batch) { t.Produce(b.Lines(), b.All(), b.Done) }
