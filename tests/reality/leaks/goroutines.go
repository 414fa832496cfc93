// Goroutines that wait for a reply which nobody sends, each with its buffer.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

func request(reply chan int) {
	buffer := bytes.Repeat([]byte{1}, 65536)
	buffer[<-reply] = 2
}

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for step := 0; time.Now().Before(end); step++ {
		fmt.Println("step", step)
		for i := 0; i < 4; i++ {
			go request(make(chan int))
		}
		time.Sleep(100 * time.Millisecond)
	}
}
