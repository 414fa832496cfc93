# R: linear models and their tables. models.R SECONDS
end <- Sys.time() + as.numeric(commandArgs(TRUE)[1])
step <- 0
while (Sys.time() < end) {
  step <- step + 1
  data <- data.frame(x = rnorm(20000), g = factor(sample(20, 20000, TRUE)))
  data$y <- data$x + rnorm(20000)
  summary(lm(y ~ x + g, data))
  aggregate(y ~ g, data, mean)
  cat("step", step, "\n")
}
