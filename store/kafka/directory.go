package kafka

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/store"
)

// directory is what is known of the topics of the cluster.
type directory struct {
	s      *Store
	mu     sync.Mutex
	by     map[string]entry
	limits map[string]limit          // of topics of dead letters
	ids    map[string][]kadm.TopicID // all that a topic was seen to have
}

type limit struct {
	bytes int32
	sure  bool // the brokers said so, and have not refused a batch since
}

// takes reports whether a batch may have a record of that weight, however little it can be compressed.
func (l limit) takes(weight int) bool { return weight+batchCost <= int(l.bytes) }

// batchCost is more than what a batch has besides the keys, values and headers of one record.
const batchCost = 256

// entry is a topic as the brokers have it.
type entry struct {
	id         kadm.TopicID
	partitions int
}

// source stands for this incarnation of the topic: one that is deleted and made
// again has another.
func (t entry) source() uint32 { return crc32.ChecksumIEEE(t.id[:]) }

func (d *directory) init(s *Store) {
	d.s, d.by, d.limits, d.ids = s, map[string]entry{}, map[string]limit{}, map[string][]kadm.TopicID{}
}

// known returns a topic without asking a broker, if it was there.
func (d *directory) known(name string) (entry, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.by[name]
	return t, ok
}

func (d *directory) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.by))
}

// describe asks the brokers for topics. They do not say which of several topics the user
// may not see: that is found out here.
func (s *core) describe(ctx context.Context, names ...string) (kadm.TopicDetails, error) {
	details, err := s.admin.ListTopics(ctx, names...)
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return details, err
	}
	for _, name := range names {
		if len(names) == 1 {
			return nil, about(name, err)
		}
		if _, err := s.describe(ctx, name); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// look asks the brokers for topics and returns those that are there.
func (d *directory) look(ctx context.Context, names ...string) (map[string]entry, error) {
	details, err := d.s.describe(ctx, names...)
	if err != nil {
		return nil, d.s.explain("look up topics", err)
	}
	found := map[string]entry{}
	for name, t := range details {
		switch {
		case errors.Is(t.Err, kerr.UnknownTopicOrPartition):
		case t.Err != nil:
			return nil, d.s.explain("look up topic "+name, about(name, t.Err))
		default:
			found[name] = entry{t.ID, len(t.Partitions)}
		}
	}
	if again := d.note(names, found); len(again) > 0 {
		d.s.producers.forget(again...) // they would refuse its records for ever
	}
	return found, nil
}

// note puts down what the brokers say of topics, and returns those of them that were
// made again. A broker that has not heard of it may still show the one before.
func (d *directory) note(names []string, found map[string]entry) (again []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		delete(d.by, name)
	}
	maps.Copy(d.by, found)
	for name, t := range found {
		if t.id == (kadm.TopicID{}) || slices.Contains(d.ids[name], t.id) {
			continue
		}
		if d.ids[name] = append(d.ids[name], t.id); len(d.ids[name]) > 1 {
			again = append(again, name)
		}
	}
	return again
}

// find looks for a topic that should be there. Brokers hear of a topic one after the
// other: one that is not known is asked for again for a while. A commit says which
// incarnation of a topic it is of, so the incarnation must not be guessed.
func (d *directory) find(ctx context.Context, name string) (t entry, there bool, err error) {
	for end := time.Now().Add(findWait); ; {
		found, err := d.look(ctx, name)
		if err != nil {
			return entry{}, false, err
		}
		if t, there = found[name]; there || time.Now().After(end) {
			return t, there, nil
		}
		if store.Sleep(ctx, metadataMin) != nil {
			return entry{}, false, d.s.explain("look up topic "+name, ctx.Err())
		}
	}
}

// findWait is how long a topic that should be there is asked for.
const findWait = 5 * time.Second

// there asks the brokers whether they know a topic, whatever the client has cached.
func (d *directory) there(ctx context.Context, name string) (bool, error) {
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, d.s.producers.main)
	if err != nil {
		return false, d.s.explain("look up topics", err)
	}
	return len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0, nil
}

// forget makes the store ask the brokers about a topic again. It reports whether the topic
// could not be recognised if it were created again, because the brokers assign no ids.
func (d *directory) forget(name string) (nameless bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.by[name]
	delete(d.by, name)
	return ok && t.id == (kadm.TopicID{})
}

// missing returns those of topics that are not there.
func (d *directory) missing(ctx context.Context, names iter.Seq[string]) (missing []string, err error) {
	for name := range names {
		if _, ok := d.known(name); !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	found, err := d.look(ctx, missing...)
	return slices.DeleteFunc(missing, func(name string) bool {
		_, ok := found[name]
		return ok
	}), err
}

// ensure makes topics that are not there.
func (d *directory) ensure(ctx context.Context, names map[string]bool) error {
	missing, err := d.missing(ctx, maps.Keys(names))
	for _, name := range missing {
		if err == nil {
			err = d.mayCreate(name)
		}
		if err == nil {
			_, err = d.create(ctx, "create topic "+name, name, d.s.cfg.Create.spec(), nil)
		}
	}
	return err
}

// mayCreate returns why a topic that is missing is not made.
func (d *directory) mayCreate(name string) error {
	if !d.s.cfg.Create.Off {
		return nil
	}
	plain := d.s.plain(name)
	of, own := d.s.Owner(plain)
	hint := "create it: pawl kafka topics ensure " + plain
	switch {
	case own && of == "":
		hint = "create it: " + makesState
	case own:
		hint = "create it: pawl kafka topics ensure " + of
	}
	return &store.Error{
		Op: "topic " + name, Code: store.ErrNotFound, Hint: hint,
		Err: errors.New("it is not there, and topics are not created here (no_create)"),
	}
}

// create makes a topic, if it is not there, and waits until the brokers know it. More
// are settings beside those of spec. The answer reports whether it was there.
func (d *directory) create(ctx context.Context, op, name string, spec TopicSpec,
	more map[string]string) (kadm.CreateTopicResponse, error) {
	configs := spec.configs()
	maps.Copy(configs, more)
	values := make(map[string]*string, len(configs))
	for key, value := range configs {
		values[key] = &value
	}
	answers, err := d.s.admin.CreateTopics(ctx, cmp.Or(spec.Partitions, -1), cmp.Or(spec.Replicas, -1), values, name)
	answer := answers[name]
	if err == nil {
		err = answer.Err
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return answer, d.s.explain(op, &topicError{topic: name, create: true, error: err})
	}
	return answer, d.await(ctx, name)
}

// await waits until the broker that is asked knows a topic that was just made:
// brokers hear of it one after the other.
func (d *directory) await(ctx context.Context, name string) error {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		if found, err := d.look(ctx, name); err == nil && found[name].partitions > 0 {
			return nil
		}
		if store.Sleep(ctx, wait) != nil {
			return d.s.explain("create topic "+name, ctx.Err())
		}
	}
}

// ensureDead makes the topic of a topic's dead letters: with as many partitions,
// and kept for 30 days.
func (d *directory) ensureDead(ctx context.Context, of string) (string, error) {
	name := d.s.cfg.deadName(of)
	if _, ok := d.known(name); ok && d.limitOf(name).sure {
		return name, nil
	}
	found, err := d.look(ctx, name, of)
	if err != nil {
		return name, err
	}
	if _, ok := found[name]; !ok {
		if err := d.mayCreate(name); err != nil {
			return name, err
		}
		spec := d.s.cfg.Create.spec().Dead()
		spec.Partitions = int32(found[of].partitions)
		if spec.Compression != "" {
			spec.Compression = "snappy" // which every other reader of dead letters knows
		}
		if _, err := d.create(ctx, "create topic "+name, name, spec, nil); err != nil {
			return name, err
		}
	}
	d.learnLimit(ctx, name)
	return name, nil
}

// learnLimit asks the brokers how large batches of a topic may be. It may accept less than
// ours: batches filled up to any other limit would be refused as a whole, again and again.
// A dead letter may need more: it has all of its message, which may be another program's
// and larger than our batches, and says more.
func (d *directory) learnLimit(ctx context.Context, name string) {
	now, err := d.s.settingsAt(ctx, name)
	bytes, _ := strconv.Atoi(now["max.message.bytes"]) // it need not be told
	if err != nil && !errors.Is(err, kerr.TopicAuthorizationFailed) {
		d.s.cfg.Logger.Debug("it is not known yet how large batches may be", "topic", name, "error", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, dead := d.s.cfg.deadHome(d.s.plain(name))
	l := limit{int32(min(bytes, maxReadBytes)), dead || bytes > 0}
	if ours := d.s.cfg.Produce.BatchBytes; bytes <= 0 || !dead && l.bytes > ours {
		l.bytes = ours
	}
	d.limits[name] = l
}

// limitOf is the largest batch of a topic, as far as it is known.
func (d *directory) limitOf(name string) limit {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.limits[name]; ok {
		return l
	}
	return limit{bytes: d.s.cfg.Produce.BatchBytes}
}

// forgetLimit makes the store ask the brokers again how large batches of a topic of
// dead letters may be.
func (d *directory) forgetLimit(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.limits[name]; ok {
		l.sure = false
		d.limits[name] = l
	}
}

const (
	deadRetention = 30 * 24 * time.Hour
	// maxDeadBytes is what a topic of dead letters takes: a body and headers of
	// [pawl.MaxBody] and [pawl.MaxHeaderLen], a little over 16 MiB, and beside them what
	// the letter says. That is about 500 attempts with a reason of [store.MaxReason].
	maxDeadBytes = 20 << 20
	// maxReadBytes is of a batch that is read. Larger ones are not written.
	maxReadBytes = 64 << 20
	// Changes of topics at the brokers are noticed within metadataAge; they are not
	// asked more often than every metadataMin.
	metadataAge = 30 * time.Second
	metadataMin = 100 * time.Millisecond
)
