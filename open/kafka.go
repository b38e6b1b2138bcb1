package open

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// kafkaIdentity is the brokers and the prefix of a URL.
func kafkaIdentity(text string) string {
	c, err := kafkaConfig(text)
	if err != nil {
		return ""
	}
	brokers := strings.Split(strings.ToLower(strings.Join(c.Brokers, ",")), ",")
	slices.Sort(brokers)
	return "kafka " + strings.Join(brokers, ",") + " " + c.Prefix
}

func checkKafka(c Config) error {
	config, err := kafkaConfig(c.URL)
	if err == nil {
		_, err = config.Complete()
	}
	return err
}

// kafkaTaken says why a topic can have no messages in the store of a URL, and what to do.
func kafkaTaken(url, topic string) (why, hint string) {
	config, err := kafkaConfig(url)
	if err == nil {
		config, err = config.Complete()
	}
	if err != nil { // it is said of the URL
		return "", ""
	}
	return config.Taken(topic)
}

func openKafka(ctx context.Context, c Config) (store.Store, error) {
	config, err := kafkaConfig(c.URL)
	if err != nil {
		return nil, err
	}
	config.Logger = c.Logger
	if config.Produce.Timeout == 0 && c.TakeWithin > 0 {
		// What was not sent by then is given up, because another store takes it: it
		// would be there twice. In less than that the client may not even try again.
		config.Produce.Timeout = max(leastDelivery, c.TakeWithin*3/4)
	}
	if c.NoCheck {
		return kafka.New(config)
	}
	return kafka.Open(ctx, config)
}

const leastDelivery = 5 * time.Second

// kafkaConfig reads kafka://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…][?OPTIONS].
func kafkaConfig(text string) (kafka.Config, error) {
	_, rest, _ := strings.Cut(text, ":")
	rest, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return kafka.Config{}, urlError("kafka:// needs the address of a broker: kafka://HOST:PORT")
	}
	rest, query, _ := strings.Cut(rest, "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return kafka.Config{}, urlError("the options after ? cannot be parsed")
	}
	var config kafka.Config
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, password, _ := strings.Cut(rest[:i], ":")
		if config.User, err = url.PathUnescape(user); err == nil {
			config.Password, err = url.PathUnescape(password)
		}
		if err != nil {
			return kafka.Config{}, urlError("user or password cannot be read: escape special characters as %%XX")
		}
		rest = rest[i+1:]
	}
	for broker := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), ",") {
		if !strings.Contains(broker, ":") {
			broker += ":9092"
		}
		config.Brokers = append(config.Brokers, broker)
	}
	return config, kafkaOptions(&config, options)
}

// kafkaOptions reads the options of a URL, and reports all that are wrong at once.
func kafkaOptions(c *kafka.Config, options url.Values) error {
	known := kafkaFields(c)
	var errs []error
	for name, field := range known {
		value := take(options, name)
		if value == "" {
			continue
		}
		if err := setOption(field, value); err != nil {
			errs = append(errs, urlError("option %s is %q; it is %v", name, value, err))
		}
	}
	const some = "group, client_id, instance, prefix, partitions, replicas, commit, session … (docs/kafka.md has all)"
	if err := nothingLeft(options, some); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// kafkaFields are the options of a URL, and what they set.
func kafkaFields(c *kafka.Config) map[string]any {
	return map[string]any{
		"group": &c.Group, "client_id": &c.ClientID, "instance": &c.Instance, "protocol": &c.Protocol,
		"prefix": &c.Prefix,
		"tls":    &c.TLS, "mechanism": &c.Mechanism, "ca": &c.CA, "cert": &c.Cert, "key": &c.Key,
		"token_file":  &c.TokenFile,
		"dead_suffix": &c.DeadSuffix, "dead_names": &c.DeadNames, "state_topic": &c.StateTopic,
		"handler_version": &c.HandlerVersion,
		"partitions":      &c.Create.Partitions, "replicas": &c.Create.Replicas, "no_create": &c.Create.Off,
		"profile":     &c.Create.Profile,
		"compression": &c.Produce.Compression, "linger": &c.Produce.Linger, "delivery_timeout": &c.Produce.Timeout,
		"retries":     &c.Produce.Retries,
		"batch_bytes": &c.Produce.BatchBytes, "buffer_bytes": &c.Produce.BufferBytes,
		"close_wait": &c.Produce.CloseWait,
		"session":    &c.Consume.Session, "heartbeat": &c.Consume.Heartbeat, "rebalance": &c.Consume.Rebalance,
		"drain":  &c.Consume.Drain,
		"commit": &c.Consume.Commit, "fetch_min": &c.Consume.FetchMin, "fetch_wait": &c.Consume.FetchWait,
		"fetch_bytes": &c.Consume.FetchBytes,
		"max_bytes":   &c.Consume.Bytes, "partition_bytes": &c.Consume.PartBytes, "max_count": &c.Consume.Count,
		"idle": &c.Consume.Idle,
	}
}

// setOption reads a value into a field; the error says what the value is to be.
func setOption(field any, value string) (err error) {
	switch f := field.(type) {
	case *string:
		*f = value
	case *map[string]string:
		*f = map[string]string{}
		for pair := range strings.SplitSeq(value, ",") {
			name, other, ok := strings.Cut(pair, ":")
			if !ok || name == "" || other == "" {
				return errors.New("pairs like orders:orders-dead,mail:mail-dead")
			}
			(*f)[name] = other
		}
	case *bool:
		if *f, err = strconv.ParseBool(value); err != nil {
			return errors.New("true or false")
		}
	case *time.Duration:
		if *f, err = time.ParseDuration(value); err != nil {
			return errors.New("a duration like 500ms or 30s")
		}
	default: // an integer of some size
		number := reflect.ValueOf(field).Elem()
		n, err := strconv.ParseInt(value, 10, number.Type().Bits())
		if err != nil {
			return errors.New("a number")
		}
		number.SetInt(n)
	}
	return nil
}
