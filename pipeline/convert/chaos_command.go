package convert

import "github.com/pawl-dev/pawl/pipeline"

func chaosCommand() pipeline.Command {
	return pipeline.Command{Use: "chaos", Short: "Run servers and make files that misbehave, for tests"}
}
