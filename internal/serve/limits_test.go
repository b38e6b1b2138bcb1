package serve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
)

// TestTheFileTakesTheRatesThatALimiterTakes: what config check calls right must not
// keep a daemon from starting, nor the other way round.
func TestTheFileTakesTheRatesThatALimiterTakes(t *testing.T) {
	rates := []string{"1/1d", "5/1d", "1/10000s", "1/10001s", "1000000/s", "1000001/s", "2000000/s", "1e9", "0.0001",
		"0.00009", "1/m", "100/s"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		rates = append(rates,
			fmt.Sprintf("%d/%ds", 1+random.IntN(100), 1+random.IntN(2_000_000)),
			fmt.Sprintf("%.0f/s", math.Pow(10, 9*random.Float64())),
			fmt.Sprintf("%g", math.Pow(10, 12*random.Float64()-6)))
	}
	for _, text := range rates {
		perSecond, err := config.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		_, refused := dispatch.NewLimiter(dispatch.LimitConfig{Name: "l", Rate: perSecond})
		for _, file := range []string{"limits: {l: {rate: %q}}",
			"topics: {l: {handler: exec, command: x, limit: %q}}"} {
			_, err := config.Load(config.Source{Path: "pawl.yaml", Text: fmt.Appendf(nil, file, text)})
			if (err == nil) != (refused == nil) {
				t.Errorf("%s: the file says %v, the limiter %v", text, err, refused)
			}
		}
	}
}
