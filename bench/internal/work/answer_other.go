//go:build !linux

package work

import (
	"errors"
	"time"
)

func answers(int) (wait func(time.Duration), done func(), err error) {
	return nil, nil, errors.New("this work needs timerfd, which only Linux has")
}
