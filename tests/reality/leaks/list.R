# Every result of a simulation is kept in a list.
results <- list()
end <- Sys.time() + as.numeric(commandArgs(TRUE)[1])
step <- 0
while (Sys.time() < end) {
  cat("step", step, "\n")
  results[[length(results) + 1]] <- rnorm(131072)
  step <- step + 1
  Sys.sleep(0.1)
}
