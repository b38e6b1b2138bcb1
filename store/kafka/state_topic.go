package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/pawl-dev/pawl/store"
)

// stateReplicas is how many replicas the topic of the state has: no process can start
// without it, so it must survive the loss of a broker if there are others.
const stateReplicas = 3

// makesState is how an operator makes the topic of the state.
const makesState = "pawl kafka topics ensure TOPIC --profile production (of any topic), " +
	"or by hand with one partition, retention.ms=-1 and cleanup.policy=delete"

// stateISR is how many of its replicas have to be in sync: so many that one may
// be down, two at most.
func stateISR(replicas int) int { return min(2, max(1, replicas-1)) }

// wantedReplicas is the default number of replicas of the topic of the state, for a
// cluster of that many brokers.
func (s *side) wantedReplicas(brokers int) int {
	if s.cfg.Create.Replicas > 0 {
		return int(s.cfg.Create.Replicas)
	}
	return max(1, min(stateReplicas, brokers))
}

func (st *state) make(ctx context.Context) error {
	brokers, err := st.s.admin.ListBrokers(ctx)
	if err != nil {
		return st.s.explain("create topic "+st.tail.topic, err)
	}
	replicas := st.s.wantedReplicas(len(brokers))
	spec := TopicSpec{Partitions: 1, Replicas: int16(replicas), MinISR: stateISR(replicas), Retention: -1}
	_, err = st.s.topics.create(ctx, "create topic "+st.tail.topic, st.tail.topic, spec, map[string]string{
		"retention.bytes": "-1", "cleanup.policy": "delete", "segment.bytes": strconv.Itoa(stateSegment),
	})
	return err
}

// EnsureState makes the topic of the state, or gives it as many replicas as spec wants,
// where it has fewer: on other brokers, beside those that it has.
func (s *side) EnsureState(ctx context.Context, spec TopicSpec, dry bool) (Ensured, error) {
	const op = "ensure the topic of the state"
	wire := s.state.tail.topic
	e := Ensured{Topic: s.cfg.StateTopic, Partitions: 1, Replicas: int(spec.Replicas)}
	if err := s.usable(ctx, op); err != nil {
		return e, err
	}
	d, there, err := s.registry.detail(ctx, op, wire)
	if err == nil && !there {
		if e.Created = true; dry {
			return e, nil
		}
		if err = s.state.make(ctx); err == nil {
			d, _, err = s.registry.detail(ctx, op, wire)
		}
	}
	if err != nil {
		return e, err
	}
	e.Replicas = d.Partitions.NumReplicas()
	if int(spec.Replicas) > e.Replicas {
		if err := s.addReplicas(ctx, op, d, int(spec.Replicas), dry); err != nil {
			return e, err
		}
		e.Replicas = int(spec.Replicas)
		e.Changed = append(e.Changed, "replicas="+strconv.Itoa(e.Replicas))
	}
	return s.registry.setTopic(ctx, op, e, TopicSpec{MinISR: spec.MinISR, Retention: -1}, dry)
}

// addReplicas puts replicas of the only partition of a topic on further brokers.
func (s *side) addReplicas(ctx context.Context, op string, d kadm.TopicDetail, want int, dry bool) error {
	brokers, err := s.admin.ListBrokers(ctx)
	if err != nil {
		return s.explain(op, err)
	}
	on := slices.Clone(d.Partitions[0].Replicas)
	for _, id := range brokers.NodeIDs() {
		if len(on) < want && !slices.Contains(on, id) {
			on = append(on, id)
		}
	}
	if len(on) < want {
		return s.tooFewBrokers(op, len(brokers), want)
	}
	if dry {
		return nil
	}
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign(d.Topic, 0, on)
	resp, err := s.admin.AlterPartitionAssignments(ctx, req)
	if err == nil {
		err = resp.Error()
	}
	return s.explain(op, err)
}

func (s *side) tooFewBrokers(op string, brokers, want int) error {
	return &store.Error{
		Op: op, Code: store.ErrInvalid,
		Err: fmt.Errorf("%d replicas are wanted, and the cluster has %d brokers that are up: %w", want, brokers,
			kerr.InvalidReplicationFactor),
		Hint: fmt.Sprintf(
			"start the brokers that are down, or say --replicas %d --min-isr 1 (or --profile development)", brokers),
	}
}

// stateHealth says what is wrong with the topic of the state. Workers cannot start, nor
// settings change, without it.
func (s *side) stateHealth(ctx context.Context, h *Health) error {
	d, there, err := s.registry.detail(ctx, "health", s.state.tail.topic)
	if err != nil {
		return err
	}
	if !there {
		if s.cfg.Create.Off {
			h.fault(s.cfg.StateTopic,
				"the topic of the state is not there, and none is made here (no_create): workers cannot start; create it: %s",
				makesState)
		}
		return nil // it is made when it is needed
	}
	p, about := d.Partitions[0], s.cfg.StateTopic
	if p.Leader < 0 {
		h.fault(about,
			"no leader: workers cannot start, and settings cannot be changed, until one of brokers %v is back",
			p.Replicas)
	}
	if len(p.ISR) < len(p.Replicas) {
		h.fault(about, "replicas are behind: brokers %v have it, and %v are in sync", p.Replicas, p.ISR)
	}
	if want := s.wantedReplicas(len(h.Brokers)); len(p.Replicas) < want {
		h.fault(about,
			"the state has %d replicas of %d: when a broker is lost, workers cannot start; run `pawl kafka topics ensure TOPIC --profile production`",
			len(p.Replicas), want)
	}
	if p.Leader >= 0 {
		s.lengthHealth(ctx, h)
	}
	return nil
}

// lengthHealth reports that the log of the state is not being shortened. Nothing fails at
// once, but starting processes have ever more to read.
func (s *side) lengthHealth(ctx context.Context, h *Health) {
	start, err := s.state.start(ctx)
	if err == nil {
		err = s.state.follow(ctx)
	}
	if err != nil {
		h.fault(s.cfg.StateTopic, "the state cannot be read: %v", err)
		return
	}
	if n := s.state.snapshots(start); n > mostSnapshots {
		h.fault(s.cfg.StateTopic,
			"it has %d snapshots and is not shortened: it grows for ever. Look at the log of a worker; %s", n, s.mayCut())
	}
}
