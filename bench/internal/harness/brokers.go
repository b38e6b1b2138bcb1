package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/bench/internal/arm"
	"github.com/pawl-dev/pawl/bench/internal/brokers"
	"github.com/pawl-dev/pawl/bench/internal/kafka"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/bench/internal/work"
)

// prepareKafka writes the topics that are to be read, once for all arms and
// rounds, and leaves out what this machine cannot run.
func (c *Config) prepareKafka(ctx context.Context) (err error) {
	if c.Kafka == "" {
		return errors.New("no Kafka broker: set PAWL_TEST_KAFKA, or start one with dev/services run kafka -- COMMAND")
	}
	c.prepareJava(ctx)
	if c.brokers, err = brokers.Dial(c.Kafka); err != nil {
		return err
	}
	if err := c.brokers.Clean(ctx); err != nil {
		return err
	}
	c.versions["kafka"] = c.brokers.Version(ctx)
	var sizes []int
	for _, w := range c.suiteWorks {
		if w.Kind == plan.Consume {
			sizes = append(sizes, w.Sizes(c.Arm)...)
			if c.jars != "" {
				sizes = append(sizes, plan.WarmUpRead)
			}
		}
	}
	slices.Sort(sizes)
	for _, n := range slices.Compact(sizes) {
		fmt.Fprintf(c.Stderr, "  writing the topic of %d records\n", n)
		w := plan.Filling(n)
		r := work.Run{Arm: arm.NewFiller(c.Kafka, w), Meter: &meter.Meter{}, Work: w}
		if _, err := r.Do(ctx); err != nil {
			return fmt.Errorf("fill the topic of %d records: %w", n, err)
		}
	}
	return nil
}

// prepareJava finds the jars of Parallel Consumer, or takes the arm out of all
// works and says so.
func (c *Config) prepareJava(ctx context.Context) {
	wanted := func(w plan.Work) bool {
		return slices.Contains(w.Arms, plan.ParallelConsumer) && (c.Arm == "" || c.Arm == plan.ParallelConsumer)
	}
	if !slices.ContainsFunc(c.suiteWorks, wanted) {
		return
	}
	jars, version, err := kafka.ParallelJars(ctx, c.Services)
	if err == nil {
		c.jars, c.versions[plan.ParallelConsumer] = jars, version
		c.versions["java"] = kafka.JavaVersion(ctx)
		return
	}
	why := fmt.Sprintf("the arm %s: %v", plan.ParallelConsumer, err)
	fmt.Fprintln(c.Stderr, "  LEFT OUT:", why)
	c.left = append(c.left, why)
	for i := range c.suiteWorks {
		w := &c.suiteWorks[i]
		w.Arms = slices.DeleteFunc(slices.Clone(w.Arms), func(arm string) bool { return arm == plan.ParallelConsumer })
	}
}
