package serve

import (
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/convert"
	"github.com/pawl-dev/pawl/pipeline/crawl"
	"github.com/pawl-dev/pawl/pipeline/forward"
	"github.com/pawl-dev/pawl/pipeline/project"
	"github.com/pawl-dev/pawl/pipeline/wecom"
	"github.com/pawl-dev/pawl/policy"
)

// Kinds returns the kinds of pipelines that are compiled in: a line each.
func Kinds() []*pipeline.Kind {
	all := []pipeline.Kind{
		crawl.Kind(),
		forward.Kind(),
		convert.Kind(),
		project.Kind(),
		wecom.Kind(),
	}
	kinds := make([]*pipeline.Kind, len(all))
	for i := range all {
		kinds[i] = &all[i]
	}
	return kinds
}

// Matrix returns the policy of this program: the built-in rules, those of all pipelines, and overrides.
func Matrix(overrides ...policy.Override) (*policy.Matrix, error) {
	var rules []policy.Rule
	for _, k := range Kinds() {
		for _, r := range k.Rules {
			if r.Origin == "" {
				r.Origin = operate.OfPipeline + k.Name
			}
			rules = append(rules, r)
		}
	}
	return policy.NewMatrixOf(nil, rules, overrides...)
}
