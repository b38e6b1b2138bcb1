package kafka_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors: they wait for brokers most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		if err := p.Value.Set("6"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
